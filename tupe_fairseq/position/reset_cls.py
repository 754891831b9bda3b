"""The untied [CLS]: one value for its row, one for its column."""

import torch
from torch import Tensor

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
