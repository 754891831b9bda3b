"""Attention as its equation says: the reference."""

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.attention.sequences import Sequences, make_masks

prepare = make_masks


def attend(
    qkv: Tensor,
    bias: Tensor | None,
    sequences: Sequences,
    *,
    scaling: float,
    dropout: float,
    content_bias=None,
    weights: list[Tensor] | None = None,
) -> Tensor:
    """See ``tupe_fairseq.attention``; ``weights`` gets the probabilities."""
    dtype = torch.promote_types(qkv.dtype, torch.float32)
    of_batch = functools.partial(attend_batch, scaling=scaling, dropout=dropout, weights=weights)
    return sequences.in_batches(of_batch, qkv, bias, dtype, content_bias)


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
    """dropout(softmax(scaling * q k^T + mask)) v, all (B, L, H, K), mask (B, H, L, L) or less."""
    probs = attention_probabilities(q, k, mask, scaling=scaling)
    if weights is not None:
        weights.append(probs)
    probs = F.dropout(probs.to(v.dtype), dropout)
    return torch.matmul(probs, v.transpose(1, 2)).transpose(1, 2)


def attention_probabilities(q: Tensor, k: Tensor, mask: Tensor | None, *, scaling: float) -> Tensor:
    """softmax(scaling * q k^T + mask): q, k (B, L, H, K) -> (B, H, L, L), float32 or wider."""
    scores = torch.matmul(q.transpose(1, 2) * scaling, k.permute(0, 2, 3, 1))
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return torch.softmax(scores if mask is None else scores + mask, dim=-1)
