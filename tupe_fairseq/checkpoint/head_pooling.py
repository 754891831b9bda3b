"""What a state dict records of a classification head that gets the mean of a text's features.

Its weights fit a head that gets the first token's as well, and would silently compute something
else; and whoever loads a state dict sees nothing else of the file.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from tupe_fairseq.files.names import CLS, MEAN

#: the name of the record in a head; "version", so that averaging and half precision leave it alone
NAME = "pooling_version"


def mean_record() -> Tensor:
    """The record of a head with the mean, int64 (); one with the first token has none."""
    return torch.ones((), dtype=torch.int64)


def recorded_pooling(state: Mapping[str, Tensor], head: str) -> str:
    """With which pooling a head was trained.

    Args:
        state (mapping): a state dict.
        head (str): what the names of the head's tensors begin with, dot included.
    """
    return MEAN if head + NAME in state else CLS
