"""The part of the attention logits that depends on positions alone, split into its terms."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.position.base import HIDDEN, PositionEncoding


class PositionTerms(NamedTuple):
    """What positions alone add to the logits, as the softmax sees it; rows are queries.

    ``absolute`` depends on both positions (TUPE's A), ``relative`` on their distance (T5's R,
    ALiBi, ..; FIRE, though it also depends on the larger position if that is above its threshold).
    With ``one_way_heads`` they are NaN where a head does not see the key.
    Shape: (H, T, T) each; None for a term that the scheme does not have.
    """

    absolute: Tensor | None
    relative: Tensor | None
    sum: Tensor


@torch.no_grad()
def terms_by_layer(encoder: TupeEncoder, seq_len: int) -> dict[int | None, PositionTerms]:
    """The logits of ``seq_len`` tokens without content (q = k = 0) by layer; None: all layers."""
    scheme = encoder.config.position_encoding
    return {n: _terms(p, scheme, seq_len) for n, p in encoder.position_encodings().items()}


def _terms(position: PositionEncoding, scheme: str, seq_len: int) -> PositionTerms:
    total = position(seq_len)
    if position.uses("content_bias"):
        parameter = next(position.parameters(), torch.empty(0))
        nothing = parameter.new_zeros(1, position.num_heads, seq_len, position.head_dim)
        content = position.content_bias(nothing, nothing, seq_len, seq_len)
        if content is not None and content.any():
            content = content[0].expand(position.num_heads, seq_len, seq_len)
            total = content if total is None else total + content
    if total is None:
        where = "is in the input" if position.uses("embed") else "acts with content, if at all"
        raise ValueError(
            f"position encoding {scheme!r} {where}: no part of the logits depends on positions "
            "alone; look at extract_features(tokens, return_attention=True)"
        )
    relative = None
    if position.relative is not None:
        relative = position.in_full_precision(position.relative, seq_len)
    if position.one_way_heads:
        hidden = total == HIDDEN
        total = total.masked_fill(hidden, math.nan)
        relative = None if relative is None else relative.masked_fill(hidden, math.nan)
    if position.TABLE is None:
        return PositionTerms(None, total, total)
    if position.uses("embed"):  # the table's rows are in the input, not in the logits
        return PositionTerms(None, relative, total)
    return PositionTerms(total if relative is None else total - relative, relative, total)
