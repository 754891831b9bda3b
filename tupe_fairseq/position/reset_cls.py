"""The untied [CLS]: one value for its row, one for its column."""

from typing import Optional

import torch
from torch import Tensor

from tupe_fairseq.position.bias_factors import BiasFactors
from tupe_fairseq.position.positions import Positions, as_tensor


def untie_cls(
    bias: Tensor,
    cls_to_other: Tensor,
    other_to_cls: Tensor,
    positions_q: Positions,
    positions_k: Positions,
) -> Tensor:
    """Give [CLS] position scores of its own, whatever the other token's position.

    reset(v, i, j) = cls_to_other  if i is [CLS],
                     other_to_cls  if j is [CLS] and i is not,
                     v[i, j]       otherwise.
    Source: Ke, He and Liu 2021, Eq. (9), https://arxiv.org/abs/2006.15595; theta_1 there is
    ``cls_to_other`` and theta_2 ``other_to_cls``.  This is the only place that knows that the
    token at position 0 is [CLS], wherever it is in the sequence; without one, nothing changes.

    Args:
        bias (Tensor): scores that depend on positions alone; rows are queries, columns are keys.
        cls_to_other (Tensor): the score of [CLS] looking at any token, itself included.
        other_to_cls (Tensor): the score of any other token looking at [CLS].
        positions_q, positions_k: the positions of rows and columns.
    Shape:
        bias (H, Tq, Tk) or (B, H, Tq, Tk), cls_to_other (H), other_to_cls (H) -> as bias.
    Dtype and device: those of ``bias``, which all three share.
    """
    row_is_cls, column_is_cls = (
        as_tensor(positions, bias.device) == 0 for positions in (positions_q, positions_k)
    )
    # (B x) T -> (B x) 1 x T x 1 and (B x) 1 x 1 x T
    row_is_cls = row_is_cls.unsqueeze(-2).unsqueeze(-1)
    column_is_cls = column_is_cls.unsqueeze(-2).unsqueeze(-2)
    bias = torch.where(column_is_cls, other_to_cls[:, None, None], bias)
    return torch.where(row_is_cls, cls_to_other[:, None, None], bias)


def untied_factors(
    queries: Optional[Tensor],
    keys: Optional[Tensor],
    by_distance: Optional[Tensor],
    cls_to_other: Tensor,
    other_to_cls: Tensor,
) -> BiasFactors:
    """As :func:`untie_cls`, of a bias in factors, of the positions 0 .. T - 1.

    [CLS] is without factors of the others' kind, and two more columns hold its scores: one has
    cls_to_other at the query 0 and 1 at all keys, the other 1 at all other queries and
    other_to_cls at the key 0.

    Args:
        queries, keys, by_distance: see :class:`BiasFactors`; one at least is given.
        cls_to_other, other_to_cls: see :func:`untie_cls`.
    Shape:
        queries, keys (H, T, F), by_distance (H, 2 T - 1), cls_to_other (H), other_to_cls (H).
    """
    given = queries if by_distance is None else by_distance
    assert given is not None
    seq_len = given.size(1) if by_distance is None else (given.size(1) + 1) // 2
    is_cls = (torch.arange(seq_len, device=given.device) == 0)[:, None]
    # H x T x 1 each
    at_cls = is_cls.to(given.dtype).expand(given.size(0), -1, -1)
    everywhere = torch.ones_like(at_cls)
    of_queries = [cls_to_other[:, None, None] * at_cls, everywhere - at_cls]
    of_keys = [everywhere, other_to_cls[:, None, None] * at_cls]
    if queries is not None and keys is not None:
        of_queries.insert(0, queries.masked_fill(is_cls, 0))
        of_keys.insert(0, keys.masked_fill(is_cls, 0))
    return BiasFactors(torch.cat(of_queries, -1), torch.cat(of_keys, -1), by_distance, True)
