"""Attention as its equation says: the reference."""

import torch
import torch.nn.functional as F
from torch import Tensor


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, scaling: float, dropout: float
) -> Tensor:
    """dropout(softmax(scaling * q k^T + mask)) v. Shapes: see ``tupe_fairseq.attention``."""
    probs = attention_probabilities(q, k, mask, scaling=scaling).to(v.dtype)
    return torch.matmul(F.dropout(probs, dropout), v.transpose(1, 2)).transpose(1, 2)


def attention_probabilities(q: Tensor, k: Tensor, mask: Tensor | None, *, scaling: float) -> Tensor:
    """softmax(scaling * q k^T + mask): q, k (B, L, H, K) -> (B, H, L, L), float32 or wider."""
    scores = torch.matmul(q.transpose(1, 2) * scaling, k.permute(0, 2, 3, 1))
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return torch.softmax(scores if mask is None else scores + mask, dim=-1)
