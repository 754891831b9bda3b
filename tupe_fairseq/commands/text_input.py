"""The rows of INPUT, and the texts that a model gets of them."""

import argparse
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tupe_fairseq.command_flags.row_flags import STANDARD_INPUT
from tupe_fairseq.prediction.row_chunks import Chunk, read_chunks
from tupe_fairseq.rows.guessed_columns import guess_columns
from tupe_fairseq.rows.open_rows import open_rows
from tupe_fairseq.rows.row_file import BadRow, RowFile
from tupe_fairseq.rows.standard_input import StandardInput


class TextInput(NamedTuple):
    """A file of rows, and where its texts are.

    Args:
        file (RowFile): the file.
        places (list of int): the columns of the texts.
        is_words (bool): the text is a sentence of words.
        skips (bool): whether bad rows are left out.
    """

    file: RowFile
    places: list[int]
    is_words: bool
    skips: bool

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return self.file.columns

    @property
    def is_stream(self) -> bool:
        """Whether the rows can be read only once."""
        return isinstance(self.file, StandardInput)

    def chunks(self, on_bad: Callable[[BadRow], None] | None = None) -> Iterator[Chunk]:
        """The rows from the first on; bad ones, if they are left out, go to ``on_bad``.

        Raises:
            OSError, ValueError: as :meth:`RowFile.rows`.
        """
        given = (on_bad or _ignored) if self.skips else None
        return read_chunks(self.file.rows(on_bad=given), self.places, self.is_words)


def open_input(
    args: argparse.Namespace, texts: int | None, is_words: bool, logger: logging.Logger
) -> TextInput:
    """Open INPUT and find its texts; what is guessed is logged.

    Args:
        args (Namespace): with the flags of ``add_input_flags``, checked, and ``input``.
        texts (int, optional): how many texts the model takes; None: one or two.
        is_words (bool): whether the text is a sentence of words.
        logger (Logger): of the command.
    Raises:
        OSError, ValueError, ModuleNotFoundError: as :func:`open_rows`; or if a column is missing.
    """
    if args.text2 is not None and texts == 1:
        raise ValueError(f"--text2 {args.text2}: the model takes one text; drop it")
    if args.input == STANDARD_INPUT:
        columns = ["text", "text2"][: texts or 1]
        file: RowFile = StandardInput(columns)
        return TextInput(file, list(range(len(columns))), is_words, args.skip_bad_rows)
    file = open_rows(args.input, not args.no_header)
    names = _given(args, file) or _guessed(file, texts, logger)
    if texts == 2 and len(names) == 1:
        raise ValueError(
            f"{file.path}: the model takes pairs, but only --text is known; give --text2 as well"
        )
    places = [file.columns.index(name) for name in names]
    return TextInput(file, places, is_words, args.skip_bad_rows)


def _given(args: argparse.Namespace, file: RowFile) -> list[str]:
    flags = {"--text": args.text, "--text2": args.text2}
    return [file.column(name, flag) for flag, name in flags.items() if name is not None]


def _guessed(file: RowFile, texts: int | None, logger: logging.Logger) -> list[str]:
    guess = guess_columns(file, "--text", "--text2")
    names = [guess.text] if guess.second is None or texts == 1 else [guess.text, guess.second]
    said = ", ".join(f"{role} is column {name!r}" for role, name in zip(("text", "text2"), names))
    logger.info("%s: %s (guessed; --text and --text2 take others)", file.path, said)
    return names


class BadRows:
    """Counts the rows that are left out, by reason."""

    def __init__(self):
        self.counts: dict[str, int] = Counter()
        self.first = ""

    def __call__(self, bad: BadRow) -> None:
        self.first = self.first or str(bad)
        self.counts[bad.reason] += 1

    def tell(self, logger: logging.Logger) -> None:
        """Log how many there are, if any."""
        if self.counts:
            reasons = ", ".join(f"{reason}: {count}" for reason, count in self.counts.items())
            logger.warning(
                "left out: %d rows (%s); the first: %s",
                sum(self.counts.values()), reasons, self.first,
            )  # fmt: skip


def _ignored(bad: BadRow) -> None:
    pass
