"""Attention as its equation says: the readable reference, which serves every request."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.attention.bias import Bias
from tupe_fairseq.attention.padding import Padding
from tupe_fairseq.attention.unpacked import unpacked


def eager_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_bias: Optional[Bias],
    padding: Optional[Padding],
    *,
    scaling: float,
    dropout: float,
) -> Tensor:
    """dropout(softmax(scaling * q k^T + attn_bias)) v, materialized step by step.

    Scores are summed and normalised in float32 at least, with ``attn_bias`` in its own dtype.
    See :data:`tupe_fairseq.attention.IMPLEMENTATIONS`.
    """

    def attend(q: Tensor, k: Tensor, v: Tensor, attn_bias: Optional[Bias], padding) -> Tensor:
        probs = attention_probabilities(q, k, attn_bias, padding, scaling=scaling).to(v.dtype)
        probs = F.dropout(probs, dropout)
        # B x H x L x L times B x L x H x K
        return torch.matmul(probs, v.transpose(1, 2)).transpose(1, 2)

    return unpacked(attend, q, k, v, attn_bias, padding)


def attention_probabilities(
    q: Tensor,
    k: Tensor,
    attn_bias: Optional[Bias],
    padding: Optional[Padding],
    *,
    scaling: float,
) -> Tensor:
    """softmax(scaling * q k^T + attn_bias), with padded keys at 0.

    Shape:
        q, k (B, L, H, K) -> (B, H, L, L), at least float32.
    """
    # B x L x H x K -> B x H x L x L
    scores = torch.matmul(q.transpose(1, 2) * scaling, k.permute(0, 2, 3, 1))
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if attn_bias is not None:
        scores = scores + attn_bias.whole()
    if padding is not None:
        # the lowest finite score, not -inf: exp() of it is zero next to any other score, and a
        # row of nothing else gives no NaN
        lowest = torch.finfo(scores.dtype).min
        scores = scores.masked_fill(padding.mask[:, None, None, :], lowest)
    return torch.softmax(scores, dim=-1)
