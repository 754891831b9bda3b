"""Packed tokens for what computes on padded batches."""

from typing import Callable, List, Optional

import torch
from torch import Tensor

from tupe_fairseq.attention.bias import Bias
from tupe_fairseq.attention.padding import Padding


def unpacked(
    attend: Callable[[Tensor, Tensor, Tensor, Optional[Bias], Optional[Padding]], Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_bias: Optional[Bias],
    padding: Optional[Padding],
) -> Tensor:
    """What ``attend``, which takes batches (B, L, H, K), gives for packed tokens, too.

    Shape:
        q, k, v (B, L, H, K), or (N, H, K) with packed padding -> as q.
    """
    if padding is None or not padding.packed:
        return attend(q, k, v, attn_bias, padding)

    def attend_part(q: Tensor, k: Tensor, v: Tensor, part: Padding) -> Tensor:
        bias = None if attn_bias is None else attn_bias.of_first(part.seq_len)
        return part.pack(attend(part.unpack(q), part.unpack(k), part.unpack(v), bias, part))

    return in_parts(attend_part, q, k, v, padding)


def in_parts(
    attend: Callable[[Tensor, Tensor, Tensor, Padding], Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    padding: Padding,
) -> Tensor:
    """``attend`` for each of ``padding.parts``, whose sequences do not differ much in length.

    Shape:
        q, k, v (N, H, K) -> (N, H, K).
    """
    places: List[Tensor] = []
    outs: List[Tensor] = []
    for tokens, part in padding.parts:
        if tokens is None:
            return attend(q, k, v, part)
        places.append(tokens)
        own_q, own_k, own_v = (x.index_select(0, tokens) for x in (q, k, v))
        outs.append(attend(own_q, own_k, own_v, part))
    return torch.cat(outs).index_select(0, torch.argsort(torch.cat(places)))
