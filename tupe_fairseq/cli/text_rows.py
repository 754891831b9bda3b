"""Reads the rows of a file for tupe-predict and tupe-encode: options, columns, chunks, progress."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tupe_fairseq.checkpoint.options import RunOptions, refuse_overwriting
from tupe_fairseq.data.row_formats import STANDARD_INPUT, Row, ending_of
from tupe_fairseq.data.rows import BadRows, first_rows, read_chunks, read_columns, texts_of
from tupe_fairseq.flags import option, rows_file, shown_as
from tupe_fairseq.labelled.columns import Columns, choose_columns, of_conll
from tupe_fairseq.labelled.task import Task, recorded_columns


@shown_as("INPUT")
def _rows(value: Any) -> str:
    """A file of rows, or standard input."""
    return value if value == STANDARD_INPUT else rows_file(value)


@dataclass(kw_only=True)
class RowOptions(RunOptions):
    """Options of commands that run a model over rows; a subclass has ``output_file``."""

    input: str = option(
        ".tsv, .csv, .jsonl, .conll or .txt (a text in each line), also .gz, .xz, .bz2; or "
        ".parquet; or - for standard input, a text in each line",
        _rows, positional=True,
    )  # fmt: skip
    fp16: bool = option("half precision, for GPUs", bool, False, group="computation")
    text: str | None = option(
        "column of the text",
        default=None, unset="as in training, or guessed", group="rows", metavar="COLUMN",
    )  # fmt: skip
    text2: str | None = option(
        "column of the second text, for pairs",
        default=None, unset="as in training, or guessed", group="rows", metavar="COLUMN",
        needs="text",
    )  # fmt: skip
    skip_bad_rows: bool = option(
        "leave out and count rows that cannot be read; otherwise the first is an error",
        bool, False, group="rows",
    )  # fmt: skip

    def check(self) -> None:
        refuse_overwriting(self.output_file, [self.checkpoint, self.input])
        if self.input == STANDARD_INPUT and self.text:
            raise ValueError("--text is for files, not for standard input")

    def load_model(self, *parts: str):
        """The model with its ``parts`` on the device, its tokenizer, and the folders of both."""
        from tupe_fairseq.checkpoint.model import read_with_tokenizer

        device = self.device()
        if self.fp16 and device == "cpu":
            raise ValueError("--fp16 needs a GPU; drop it")
        folders = self.folders()
        model, tokenizer = read_with_tokenizer(self.checkpoint, folders)
        for part in (getattr(model, name) for name in parts):
            (part.half() if self.fp16 else part).to(device)
        return model, tokenizer, folders


class TextRow(NamedTuple):
    """A row: its index in the file, from 0, its cells, its texts or words, and its label."""

    index: int
    cells: Row
    texts: list[str]
    label: Any


class TextRows:
    """The rows of INPUT, and the texts in them.

    Args:
        options: a ``RowOptions``.
        task: the task of the model; None: rows have one text or two.
        folders: their report.json names the training data's columns, the default if INPUT has them.
        read_label: returns a row's label from its cell and its texts; None: rows have no labels.

    Attributes:
        fits: is called with each row; raises RowError if the row cannot be used.
        columns: the columns of all rows, once they are counted.
    """

    def __init__(
        self,
        options: Any,
        task: Task | None = None,
        folders: Sequence[str] = (),
        read_label: Callable[[Any, list[str]], Any] | None = None,
    ):
        self.path, self.task = options.input, task
        self.is_stream = self.path == STANDARD_INPUT
        self.read_label = read_label
        self.chosen = self._choose(options, folders)
        self.texts = self.chosen.texts
        self.label = self.chosen.label
        self.columns = dict.fromkeys(self.texts) if self.is_stream else {}
        self.total: int | None = None
        self.fits: Callable[[Row], Any] = lambda row: None
        self.bad = BadRows(options.skip_bad_rows)

    def _choose(self, options, folders: Sequence[str]) -> Columns:
        text, text2, label = options.text, options.text2, getattr(options, "label", None)
        if self.is_stream and self.task and self.task.texts > 1:
            raise ValueError(f"rows of {self.task.texts} texts need a file, such as .jsonl")
        usual = {} if self.is_stream else recorded_columns(*folders)
        names = read_columns(self.path) if usual else []
        texts = usual.get("texts", ())
        if text is None and texts and {*texts} <= {*names}:
            text, text2 = (*texts, None, None)[:2]
            if ending_of(self.path) == ".conll":  # its columns are named by numbers
                (own,) = of_conll(first_rows(self.path))["text"]
                if own != text:
                    raise ValueError(
                        f"{self.path}: in training the words were in column {text!r}, but here "
                        f"they seem to be in column {own!r}; give --text {text} or --text {own}"
                    )
        if label is None and usual.get("label") in names:
            label = usual["label"]
        return choose_columns(
            self.path, text, text2, label,
            num_texts=self.task and self.task.texts,
            labelled=self.read_label is not None, trained=usual,
        )  # fmt: skip

    def chunks(self) -> Iterator[list[TextRow]]:
        """The usable rows, in chunks."""
        self.bad.clear()
        has_columns = ending_of(self.path, ".txt") != ".txt"  # a line of a .txt may hold any text
        kind = self.task and self.task.kind

        def use(index: int, row: Row, texts: Row) -> TextRow:
            self.fits(row)
            values = [texts[name] for name in self.texts]
            if has_columns or (kind and kind.of_words):
                values = kind.read_texts(values) if kind else texts_of(values)
            label = self.read_label(texts[self.label], values) if self.read_label else None
            return TextRow(index, row, values, label)

        for chunk in read_chunks(self.path, self.chosen.all, self.bad, use):
            yield [row for _, row in chunk]

    def count(self) -> None:
        """Count the rows of a file; reads them all, so that errors are found before the work."""
        if self.is_stream:
            return
        self.total = 0
        for chunk in self.chunks():
            self.total += len(chunk)
            self.columns.update(dict.fromkeys(name for row in chunk for name in row.cells))
        if not self.total:
            raise ValueError(f"{self.path}: all rows were left out: {self.bad}")

    def work(
        self, function: Callable[[list[list[str]]], list]
    ) -> Iterator[tuple[list[TextRow], list]]:
        """Chunks of rows, and the results of ``function`` for their texts, with a progress bar."""
        from tqdm import tqdm

        with tqdm(total=self.total, unit="row", unit_scale=True, disable=None, leave=False) as bar:
            for chunk in filter(None, self.chunks()):
                yield chunk, function([row.texts for row in chunk])
                bar.update(len(chunk))


def log_counts(logger: logging.Logger, counts: Counter, bad: BadRows) -> None:
    """Log what was read, and warn of what may be wrong with it."""
    from tupe_fairseq.data.tokenizer import warn_of_unknown

    if bad:
        logger.warning("left out: %s", bad)
    logger.info("%d rows, %d tokens", counts["rows"], counts["tokens"])
    for name, text in (
        ("truncated", "longer than the model, truncated: %d rows"),
        ("in_windows", "longer than the model, split into windows: %d"),
        ("empty", "without text: %d rows"),
    ):
        if counts[name]:
            logger.warning(text, counts[name])
    warn_of_unknown(logger, counts)
