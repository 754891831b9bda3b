"""The numbers that the pieces of a vocabulary have in fairseq's dictionary."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tupe_fairseq.text.dictionary_file import dictionary_ids
from tupe_fairseq.text.mmap_writer import item_type


def piece_numbers(pieces: Any, dictionary: str) -> np.ndarray:
    """The number of each id of a vocabulary, of the dtype that fairseq's files have for them.

    Args:
        pieces (Pieces or ListedPieces): the vocabulary.
        dictionary (str): the dict.txt.
    Raises:
        OSError, ValueError: as :func:`dictionary_ids`.
    """
    ids = dictionary_ids(dictionary)
    return np.array(pieces.numbers(ids), item_type(len(ids)))


def in_a_row(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """The ids of all rows, and the length of each, as arrays of integers."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    ids = np.fromiter(itertools.chain.from_iterable(rows), np.intp, int(lengths.sum()))
    return ids, lengths
