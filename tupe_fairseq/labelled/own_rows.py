"""Reads the rows of a file of one's own: texts and labels by the kind of task."""

from collections import Counter
from collections import Counter as CounterType
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tupe_fairseq.labelled.label_values import check_texts, parse_label, parse_words
from tupe_fairseq.labelled.own_columns import OpenedFile
from tupe_fairseq.labelled.own_task import OwnTask
from tupe_fairseq.labelled.task_description import TAGGING
from tupe_fairseq.labelled.task_rows import Label, TaskRows
from tupe_fairseq.rows.row_file import BadRow


class OwnRow(NamedTuple):
    """A row.

    Args:
        number (int): as messages name it.
        index (int): its place among the rows of the file, from 0.
        texts (tuple of str): the text or the two, or the words.
        label (Label, optional): None in a test set without labels.
    """

    number: int
    index: int
    texts: tuple[str, ...]
    label: Label | None


#: what is wrong with a row, in words for this one and in words for all like it; None if nothing is
Check = Callable[[OwnRow], tuple[str, str] | None]


class OwnRows:
    """The rows of a file that can be used so far.

    Args:
        opened (OpenedFile): the file.
        options (OwnTask): the kind of labels, and whether bad rows are left out.
    Raises:
        OSError: if the file cannot be read.
        ValueError: if it has no rows, or one that cannot be used and may not be left out; the
            message names the file and the row.

    Attributes:
        rows (list of OwnRow): in the order of the file.
        read (int): how many the file has.
        dropped (Counter): rows left out, by reason.
    """

    def __init__(self, opened: OpenedFile, options: OwnTask):
        self._file = opened.file
        self._are_words = options.kind == TAGGING
        self._skips = options.skip_bad_rows
        self.rows: list[OwnRow] = []
        self.dropped: CounterType[str] = Counter()
        self.read = 0
        columns = [*opened.texts, *([opened.label] if opened.label else [])]
        for number, values in self._file.rows(columns, self._unread):
            index = self.read
            self.read += 1
            try:
                texts = values[: len(opened.texts)]
                if not self._are_words:
                    check_texts(texts)
                label = parse_label(options, values[-1]) if opened.label else None
                found = parse_words(texts[0], label) if self._are_words else tuple(texts)
            except BadRow as bad:
                self._drop(f"{self._file.place(number)}: {bad}", bad.reason)
            else:
                self.rows.append(OwnRow(number, index, found, label))
        self._check_left()

    def check(self, check: Check) -> None:
        """Leave out, or refuse, the rows with which something is wrong.

        Raises:
            ValueError: as when they were read.
        """
        kept = []
        for row in self.rows:
            wrong = check(row)
            if wrong is None:
                kept.append(row)
            else:
                self._drop(f"{self._file.place(row.number)}: {wrong[0]}", wrong[1])
        self.rows = kept
        self._check_left()

    def _unread(self, bad: BadRow) -> None:
        self.read += 1
        self._drop(str(bad), bad.reason)

    def _drop(self, message: str, reason: str) -> None:
        if not self._skips:
            raise ValueError(f"{message}; --skip-bad-rows leaves such rows out")
        self.dropped[reason] += 1

    def _check_left(self) -> None:
        if not self.rows:
            raise ValueError(
                f"{self._file.path}: none of the {self.read} rows can be used: "
                f"{', '.join(f'{reason}: {count}' for reason, count in self.dropped.items())}"
            )


def as_task_rows(rows: Sequence[OwnRow], are_words: bool) -> TaskRows:
    """Texts and labels of rows, as they are encoded."""
    found = TaskRows(read=len(rows))
    for row in rows:
        found.add_texts(row.texts, are_words)
        if row.label is not None:
            found.labels.append(row.label)
    return found
