"""Without tupe_fairseq's own kernels: torch's dropout, and three views of one projection."""

from typing import Tuple

import torch.nn.functional as F
from torch import Tensor


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """As ``F.dropout``, in any shape."""
    return F.dropout(x, p, training)


def split_qkv(qkv: Tensor, name: str) -> Tuple[Tensor, ...]:
    """Queries, keys and values of one projection, for any implementation.

    Shape:
        (..., 3, H, K) -> three times (..., H, K), views.
    """
    return qkv.unbind(-3)
