"""The rows of a file for tupe-predict and tupe-encode: flags, columns, and chunks with progress."""

import argparse
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tupe_fairseq.cli.shared_flags import refuse_overwriting, vocabulary_files
from tupe_fairseq.data.choices import Choices
from tupe_fairseq.data.columns import Columns, choose_columns
from tupe_fairseq.data.questions import is_json
from tupe_fairseq.data.rows import (
    DELIMITED,
    STANDARD_INPUT,
    BadRows,
    Row,
    RowError,
    ending_of,
    read_chunks,
    read_columns,
    refuse_list,
    words_of,
)


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


def parse_rows(
    parser: argparse.ArgumentParser, argv: list[str] | None
) -> tuple[argparse.Namespace, tuple[str, list[str]] | None]:
    """The flags, checked, and the vocabulary that they name."""
    args = parser.parse_args(argv)
    vocabulary = vocabulary_files(parser, args)
    refuse_overwriting(parser, args.output_file, [args.checkpoint, args.input])
    if args.text2 is not None and args.text is None:
        parser.error("--text2 needs --text, the column of the first text")
    if args.input == STANDARD_INPUT:
        for flag in ("text", "text2", "no_header"):
            if getattr(args, flag):
                parser.error(f"--{flag.replace('_', '-')} is for files, not for standard input")
        return args, vocabulary
    if not os.path.isfile(args.input):
        parser.error(f"INPUT {args.input} is not a file")
    try:
        ending = "" if is_json(args.input) else ending_of(args.input)
    except ValueError as error:
        parser.error(str(error))
    if args.no_header and ending not in DELIMITED:
        parser.error(f"--no-header is for .tsv and .csv, not for {args.input}")
    return args, vocabulary


class TextRows:
    """The rows of INPUT, and the texts in them.

    Args:
        args: with the flags of :func:`add_row_flags`.
        num_texts: texts of a row that the model takes; None: one or two.
        is_words: the text is a sentence of words.
        whole: whether rows have all columns or the texts alone.
        usual: the columns of the training data, which are taken if INPUT has them.
        read_label: makes the label of a row of its cell and its words; None: there are no labels.
        choices: the columns of questions and candidates, of which a row has ``num_texts``.

    Attributes:
        fits: is called with each row, and raises RowError if it cannot be used.
        columns: of the rows that were counted.
        labels: of the rows that were read.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        num_texts: int | None,
        is_words: bool,
        whole: bool = True,
        usual: Sequence[str | None] = (None, None, None),
        read_label: Callable[[Any, list[str]], Any] | None = None,
        choices: Choices | None = None,
    ):
        self.path, self.header, self.skips = args.input, not args.no_header, args.skip_bad_rows
        self.is_stream = self.path == STANDARD_INPUT
        self.read_label, self.labels = read_label, []
        self.choices, self.num_texts = choices, num_texts
        columns = Columns("", None, choices and choices.label)
        if not choices:
            columns = self._columns(args, num_texts, usual)
        self.is_words, self.texts, self.whole = is_words, columns.texts, whole
        self.texts = [*choices.texts, *choices.candidates] if choices else columns.texts
        self.label = columns.label
        self.columns = dict.fromkeys(self.texts) if self.is_stream else {}
        self.fits: Callable[[Row], Any] = lambda row: None
        self.bad = BadRows()

    def _columns(self, args, num_texts: int | None, usual: Sequence[str | None]) -> Columns:
        given, labelled = [args.text, args.text2, getattr(args, "label", None)], self.read_label
        if usual[0] is not None and not self.is_stream:
            names = read_columns(self.path, self.header)
            if args.text is None and all(name in names for name in usual[:2] if name):
                given[:2] = usual[:2]
            if labelled and given[2] is None and usual[2] in names:
                given[2] = usual[2]
        options = {"num_texts": num_texts, "labelled": bool(labelled)}
        return choose_columns(self.path, *given, header=self.header, **options)

    def chunks(self) -> Iterator[list[tuple[int, Row, list[str]]]]:
        """Rows with their index from 0, and the texts or the words of each."""
        self.bad.clear()
        self.labels.clear()
        has_columns = ending_of(self.path, ".txt") != ".txt"  # in a line there may be any text

        def use(index: int, row: Row, texts: Row) -> tuple[int, Row, list[str]]:
            self.fits(row)
            if self.choices:
                values = [*self.choices.read(row)]
                if len(values) != self.num_texts:
                    problem = f"has {len(values) - 1} candidates, the model {self.num_texts - 1}"
                    raise RowError(problem, "another number of candidates")
                if self.read_label:
                    self.labels.append(self.read_label(self.choices.label_of(row), values))
                return index, row, values
            cells = [texts[name] for name in self.texts]
            if self.is_words:
                values = words_of(cells[0])
            else:
                values = [x if isinstance(x, str) else " ".join(x) for x in cells]
            for text in values if has_columns and not self.is_words else ():
                refuse_list(text)
            if self.read_label:
                self.labels.append(self.read_label(texts[self.label], values))
            return index, row, values

        on_bad = self.bad if self.skips else None
        names = [*self.texts, self.label] if self.read_label else self.texts
        names = [] if self.choices else names
        for chunk in read_chunks(self.path, names, self.header, on_bad, use, self.whole):
            yield [row for _, row in chunk]

    def count(self) -> int:
        """Read all rows once, so that what is wrong with them is found before the work."""
        total = 0
        for chunk in self.chunks():
            total += len(chunk)
            self.columns.update(dict.fromkeys(name for _, row, _ in chunk for name in row))
        if not total:
            raise ValueError(f"{self.path}: all rows are left out; {self.bad}")
        return total

    def work(
        self, function: Callable[[list[list[str]]], list], total: int | None
    ) -> Iterator[tuple[list[tuple[int, Row]], list]]:
        """Chunks of rows, and what ``function`` makes of their texts; with a progress bar."""
        from tqdm import tqdm

        with tqdm(total=total, unit="row", unit_scale=True, disable=None, leave=False) as bar:
            for chunk in filter(None, self.chunks()):
                yield [row for *row, _ in chunk], function([texts for *_, texts in chunk])
                bar.update(len(chunk))


def log_counts(logger: logging.Logger, counts: Counter, bad: BadRows) -> None:
    """Say what was read, and what may be wrong with it."""
    from tupe_fairseq.data.tokenizer import warn_of_unknown

    if bad:
        logger.warning("left out: %s", bad)
    logger.info("%d rows, %d tokens", counts["rows"], counts["tokens"])
    for name, text in (
        ("truncated", "longer than the model, truncated: %d rows"),
        ("in_windows", "longer than the model, split into windows: %d"),
        ("empty", "with a text that has no token: %d rows"),
    ):
        if counts[name]:
            logger.warning(text, counts[name])
    warn_of_unknown(logger, counts)
