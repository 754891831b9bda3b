"""The rows of a file for tupe-predict and tupe-encode: flags, columns, and chunks with progress."""

import argparse
import itertools
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

_CHUNK_ROWS = 8192
_MANY_UNKNOWN = 0.01

Row = dict[str, Any]


def add_row_flags(parser: argparse.ArgumentParser, standard_input: str = "") -> None:
    text = ".tsv, .csv, .jsonl, .conll or .txt (a text in each line), also .gz, .xz, .bz2; or "
    parser.add_argument("input", metavar="INPUT", help=f"{text}.parquet{standard_input}")
    add = parser.add_argument_group("rows").add_argument
    add("--text", metavar="COL", help="column of the text, by name or number; default: guessed")
    add("--text2", metavar="COL", help="column of the second text, for pairs; default: guessed")
    text = "the first row of .tsv and .csv has no names of columns; they are numbered from 1"
    add("--no-header", action="store_true", help=text)
    text = "leave out and count rows that cannot be read; default: the first is an error"
    add("--skip-bad-rows", action="store_true", help=text)


def check_row_flags(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    from tupe_fairseq.data.rows import DELIMITED, STANDARD_INPUT, ending_of

    if args.text2 is not None and args.text is None:
        parser.error("--text2 needs --text, the column of the first text")
    if args.input == STANDARD_INPUT:
        for flag in ("text", "text2", "no_header"):
            if getattr(args, flag):
                parser.error(f"--{flag.replace('_', '-')} is for files, not for standard input")
        return
    if not os.path.isfile(args.input):
        parser.error(f"INPUT {args.input} is not a file")
    try:
        ending = ending_of(args.input)
    except ValueError as error:
        parser.error(str(error))
    if args.no_header and ending not in DELIMITED:
        parser.error(f"--no-header is for .tsv and .csv, not for {args.input}")


class TextRows:
    """The rows of INPUT, and the texts in them.

    Args:
        args: with the flags of :func:`add_row_flags`.
        num_texts: texts of a row that the model takes; None: one or two.
        is_words: the text is a sentence of words.
        all_columns: whether rows have all columns or the texts alone.
        usual: the columns of the training data, which are taken if INPUT has them.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        num_texts: int | None,
        is_words: bool,
        all_columns: bool = True,
        usual: tuple[str | None, str | None] = (None, None),
    ):
        from tupe_fairseq.data.columns import choose_columns
        from tupe_fairseq.data.rows import STANDARD_INPUT, read_columns

        self.path, self.header, self.skips = args.input, not args.no_header, args.skip_bad_rows
        self.is_stream = self.path == STANDARD_INPUT
        texts = (args.text, args.text2)
        if args.text is None and usual[0] is not None and not self.is_stream:
            names = read_columns(self.path, self.header)
            texts = usual if all(name in names for name in usual if name) else texts
        columns = choose_columns(self.path, *texts, header=self.header, num_texts=num_texts)
        self.is_words, self.texts = is_words, columns.texts
        whole = all_columns and not self.is_stream
        self.columns = read_columns(self.path, self.header) if whole else self.texts
        self._names = None if whole else self.texts
        self.bad: Counter[str] = Counter()
        self.first_bad = ""

    def __iter__(self) -> Iterator[Row]:
        from tupe_fairseq.data.rows import read_rows

        self.bad.clear()
        on_bad = self._note if self.skips else None
        return (row for _, row in read_rows(self.path, self._names, self.header, on_bad))

    def _note(self, error) -> None:
        self.first_bad = self.first_bad or str(error)
        self.bad[error.reason] += 1

    def count(self, check: Callable[[Row], Any]) -> int:
        """Read all rows once, so that what is wrong with them is found before the work."""
        total = 0
        for row in self:
            check(row)
            total += 1
        if not total:
            raise ValueError(f"{self.path}: all rows are left out")
        return total

    def texts_of(self, row: Row) -> list[str]:
        """The texts of a row, or the words of its sentence."""
        texts = [row[name] for name in self.texts]
        if self.is_words:
            return texts[0].split() if isinstance(texts[0], str) else texts[0]
        return [text if isinstance(text, str) else " ".join(text) for text in texts]

    def chunks(
        self, work: Callable[[list[list[str]]], list], total: int | None
    ) -> Iterator[tuple[list[Row], list]]:
        """Chunks of rows, and what ``work`` makes of their texts; with a progress bar."""
        from tqdm import tqdm

        rows = iter(self)
        with tqdm(total=total, unit="row", unit_scale=True, disable=None, leave=False) as bar:
            while chunk := list(itertools.islice(rows, _CHUNK_ROWS)):
                yield chunk, work([self.texts_of(row) for row in chunk])
                bar.update(len(chunk))

    def log(self, logger: logging.Logger, counts: Counter) -> None:
        """Say what was read, and what may be wrong with it."""
        if self.bad:
            reasons = ", ".join(f"{reason}: {number}" for reason, number in self.bad.items())
            logger.warning(
                "left out: %d rows (%s); the first: %s",
                sum(self.bad.values()), reasons, self.first_bad,
            )  # fmt: skip
        logger.info("%d rows, %d tokens", counts["rows"], counts["tokens"])
        if counts["truncated"]:
            logger.warning("longer than the model, truncated: %d rows", counts["truncated"])
        if counts["in_windows"]:
            logger.info("longer than the model, tagged in windows: %d", counts["in_windows"])
        if counts["empty"]:
            logger.warning("with a text that has no token: %d rows", counts["empty"])
        warn_of_unknown(logger, counts)


def warn_of_unknown(logger: logging.Logger, counts: Counter) -> None:
    if counts["unknown"] > _MANY_UNKNOWN * counts["tokens"]:
        logger.warning(
            "%d of %d tokens are unknown; was the vocabulary made for such text?",
            counts["unknown"], counts["tokens"],
        )  # fmt: skip
