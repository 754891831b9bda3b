"""Texts and labels as files have them, by the kind of task."""

import math
from collections.abc import Iterable, Sequence

from tupe_fairseq.labelled.own_task import OwnTask
from tupe_fairseq.labelled.task_description import MULTILABEL, REGRESSION, TAGGING
from tupe_fairseq.labelled.task_rows import Label
from tupe_fairseq.rows.row_file import BadRow, Value

_MOST_SHOWN = 50


def parse_label(options: OwnTask, value: Value) -> Label:
    """The label of a row, without space around it.

    Args:
        options (OwnTask): the kind of task, and what separates labels.
        value (str or list of str): as it is in the file.
    Raises:
        BadRow: if it is empty, or not of this kind; the message says nothing of where it is.
    """
    if options.kind == TAGGING:
        return _whole(value.split() if isinstance(value, str) else value, "tag")
    if options.kind == MULTILABEL:
        if isinstance(value, str):
            value = value.split(options.separator) if value.strip() else []
        return tuple(dict.fromkeys(_whole(value, "label")))
    if not isinstance(value, str):
        raise BadRow(f"the label is a list; --kind {MULTILABEL} takes these", "a list for a label")
    (label,) = _whole([value], "label")
    if options.kind == REGRESSION and not _is_number(label):
        raise BadRow(f"the score {shown(label)} is not a number", "not a number")
    return label


def check_texts(values: Sequence[Value]) -> None:
    """Refuse lists.

    Raises:
        BadRow: if a text is one.
    """
    if not all(isinstance(value, str) for value in values):
        raise BadRow(
            f"there is a list where a text is expected; --kind {TAGGING} takes lists of words",
            "a list for a text",
        )


def parse_words(value: Value, tags: Label | None) -> tuple[str, ...]:
    """The words of a sentence, of which a text has spaces between.

    Args:
        value (str or list of str): as it is in the file.
        tags (tuple of str, optional): of the words; None in a test set without labels.
    Raises:
        BadRow: if there are more or fewer tags than words, or no words to be learned from.
    """
    words = tuple(value.split() if isinstance(value, str) else value)
    if tags is not None and len(tags) != len(words):
        raise BadRow(f"{len(words)} words have {len(tags)} tags", "unequal words and tags")
    if tags is not None and not words:
        raise BadRow("the sentence has no words", "no words")
    return words


def sorted_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Labels in order: numbers, if all are, by their value; otherwise by their characters."""
    found = set(labels)
    if all(map(_is_number, found)):
        return tuple(sorted(found, key=lambda label: (float(label), label)))
    return tuple(sorted(found))


def shown(label: str) -> str:
    """A label in a message."""
    return repr(label if len(label) <= _MOST_SHOWN else label[:_MOST_SHOWN] + "...")


def _whole(values: Iterable[str], what: str) -> tuple[str, ...]:
    found: list[str] = [value.strip() for value in values]
    if not all(found):
        raise BadRow(f"there is an empty {what}", f"empty {what}")
    return tuple(found)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
