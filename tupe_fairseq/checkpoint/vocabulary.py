"""A number that tells one vocabulary from another, kept in the state dict of a model."""

import hashlib
from typing import Iterable, List

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.dictionary import FAIRSEQ_SYMBOLS

MASK = "<mask>"


def vocabulary_version(symbols: Iterable[str]) -> Tensor:
    """A hash of the symbols in their order, as an int64 scalar.

    Args:
        symbols (iterable of str): those of fairseq's dictionary, the built-in ones and ``<mask>``
            included.
    """
    digest = hashlib.sha256("\n".join(symbols).encode()).digest()
    # 48 bits: the sum over many checkpoints, of which an average is made, must not overflow
    return torch.tensor(int.from_bytes(digest[:6], "big"))


def symbols_of(lines: Iterable[str]) -> List[str]:
    """The symbols of fairseq's dictionary for the lines of a dict.txt, with ``<mask>``."""
    symbols = [*FAIRSEQ_SYMBOLS, *(line.rpartition(" ")[0] for line in lines)]
    return symbols if MASK in symbols else [*symbols, MASK]
