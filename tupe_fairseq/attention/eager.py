"""Attention as in its equation: the reference implementation."""

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.attention import padded
from tupe_fairseq.attention.sequences import Masks, Sequences


def make_masks(bias: Tensor | None, sequences: Sequences, dtype: torch.dtype) -> Masks:
    """See ``tupe_fairseq.attention``; in float32 or wider."""
    return padded.make_masks(bias, sequences, torch.promote_types(dtype, torch.float32))


def attend_batch(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    *,
    scaling: float,
    dropout: float,
    weights: list[Tensor] | None = None,
) -> Tensor:
    """dropout(softmax(scaling * q k^T + mask)) v; q, k, v are (B, L, H, K), mask (B, H, L, L)."""
    scores = torch.matmul(q.transpose(1, 2) * scaling, k.permute(0, 2, 3, 1))
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    probs = torch.softmax(scores if mask is None else scores + mask, dim=-1)
    if weights is not None:
        weights.append(probs)
    probs = F.dropout(probs.to(v.dtype), dropout)
    return torch.matmul(probs, v.transpose(1, 2)).transpose(1, 2)


attend = functools.partial(padded.attend, attend_batch)
