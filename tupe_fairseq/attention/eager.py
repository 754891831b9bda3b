"""Attention as in its equation: the reference implementation."""

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.attention.base import PaddedAttention


class EagerAttention(PaddedAttention):
    """One operation after the other; the scores are float32 or wider.

    A list ``weights`` gets the probabilities of each layer, (B, H, L, L).
    """

    weights: list[Tensor] | None = None

    def make_masks(self, bias: Tensor | None, dtype: torch.dtype) -> None:
        super().make_masks(bias, torch.promote_types(dtype, torch.float32))

    def attend_batch(self, q, k, v, mask, *, scaling, dropout):
        return attend_eagerly(q, k, v, mask, scaling=scaling, dropout=dropout, weights=self.weights)


def attend_eagerly(
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
