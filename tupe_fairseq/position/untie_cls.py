"""The untied [CLS]: one value for its row, one for its column."""

import torch
from torch import Tensor


def untie_cls(bias: Tensor, cls_to_other: Tensor, other_to_cls: Tensor) -> Tensor:
    """Give [CLS] position scores of its own, whatever the other token's position.

    reset(v, i, j) = cls_to_other  if i is [CLS],
                     other_to_cls  if j is [CLS] and i is not,
                     v[i, j]       otherwise.
    Source: Ke, He and Liu 2021, Eq. (9), https://arxiv.org/abs/2006.15595; theta_1 there is
    ``cls_to_other`` and theta_2 ``other_to_cls``.  This is the only place that knows that the
    token at position 0 is [CLS].

    Args:
        bias (Tensor): scores that depend on positions alone; rows are queries at positions
            0 to L - 1, columns are keys at the same positions.
        cls_to_other (Tensor): the score of [CLS] looking at any token, itself included.
        other_to_cls (Tensor): the score of any other token looking at [CLS].
    Shape:
        bias (H, L, L), cls_to_other (H), other_to_cls (H) -> (H, L, L); H heads, L seq_len.
    Dtype and device: those of ``bias``, which all three share.
    """
    is_cls = torch.arange(bias.size(-1), device=bias.device) == 0
    bias = torch.where(is_cls[None, None, :], other_to_cls[:, None, None], bias)
    return torch.where(is_cls[None, :, None], cls_to_other[:, None, None], bias)
