"""Moved to data.task."""

from collections.abc import Sequence

from tupe_fairseq.data.task import label_of, label_symbol
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS

__all__ = ["label_ids", "label_of", "label_symbol"]


def label_ids(labels: Sequence[str]) -> dict[str, int]:
    """The number of each label in the dictionary that lists them in this order."""
    return {label: number for number, label in enumerate(labels, len(BUILT_IN_SYMBOLS))}
