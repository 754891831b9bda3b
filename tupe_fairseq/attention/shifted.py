"""A bias in 16 bits, where what counts most in a softmax is kept best."""

import math
from typing import Optional

import torch
from torch import Tensor


def shifted(attn_bias: Tensor, dtype: torch.dtype, is_padding: Optional[Tensor] = None) -> Tensor:
    """``attn_bias`` in ``dtype``; for 16 bits, each row is first shifted to a maximum of 0.

    softmax does not see a constant on a row, and what counts most in it is then near zero, where
    16 bits are finest: ALiBi's row is some hundreds from end to end.  The gradient is that of the
    cast alone: a row's gradient sums to zero, so the constant has none.

    Args:
        attn_bias (Tensor): float32 at least.
        dtype (torch.dtype): of q, k and v.
        is_padding (Tensor, optional): keys that nobody sees: what is there has no part in the
            maximum, which may be far above that of the others, and becomes 0 in 16 bits.
    Shape:
        (..., L, L), and bool that broadcasts to it -> (..., L, L); ``attn_bias`` itself if it has
        this dtype already.
    """
    if torch.finfo(dtype).bits < 32:
        fixed = attn_bias.detach()
        if is_padding is None:
            fixed = fixed.amax(dim=-1, keepdim=True)
        else:
            largest = fixed.masked_fill(is_padding, -math.inf).amax(dim=-1, keepdim=True)
            fixed = torch.where(is_padding, fixed, largest)
        attn_bias = attn_bias - fixed
    return attn_bias.to(dtype)
