"""What kernels read in place of the bias on the attention scores."""

import torch
from torch import Tensor


def shifted(attn_bias: Tensor, dtype: torch.dtype) -> Tensor:
    """``attn_bias`` in ``dtype``, each row less its greatest value where that rounds.

    softmax does not see a constant on a row, and what counts most in it is then near zero, where
    16 bits are finest: ALiBi's row is some hundreds from end to end.  The gradient is that of the
    cast alone: a row's gradient sums to zero, so the constant has none.

    Args:
        attn_bias (Tensor): float32 at least.
        dtype (torch.dtype): of q, k and v.
    Shape:
        (..., L, L) -> (..., L, L); ``attn_bias`` itself if it has this dtype already.
    """
    if torch.finfo(dtype).bits < 32:
        attn_bias = attn_bias - attn_bias.detach().amax(dim=-1, keepdim=True)
    return attn_bias.to(dtype)
