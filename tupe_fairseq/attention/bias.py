"""The one bias of a whole batch: its copies for 16-bit kernels, and which requests it fits."""

import math
from typing import Optional

import torch
from torch import Tensor

from tupe_fairseq.attention.padding import Padding
from tupe_fairseq.attention.recorded import is_recorded


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


def bias_for_kernels(
    attn_bias: Tensor, kernel_bias: Optional[Tensor], dtype: torch.dtype, length: int
) -> Tensor:
    """The bias of a sequence of ``length`` tokens, in the dtype that a kernel computes in.

    Each length has its own copy in 16 bits: the maximum of a row of the whole batch may stand at a
    key that this sequence has not.

    Args:
        attn_bias, kernel_bias: see :mod:`tupe_fairseq.attention`; ``kernel_bias`` is taken where
            it fits and no gradient is wanted.
    Shape:
        (..., L, L) -> (..., length, length).
    """
    needs_grad = attn_bias.requires_grad and torch.is_grad_enabled()
    if kernel_bias is not None and not needs_grad and length == attn_bias.size(-1):
        return kernel_bias
    corner = attn_bias[..., :length, :length]
    return shifted(corner, dtype) if length else corner.to(dtype)


def shared_bias_refusal(
    q: Tensor, attn_bias: Optional[Tensor], padding: Optional[Padding]
) -> Optional[str]:
    """Why a request does not fit one bias for the whole batch and padding at the end, or None.

    The reason has no sizes: they are logged once for each reason, and every batch has its own.
    """
    if is_recorded():
        return "it computes by the sizes of each batch, which torch.jit.trace and export would fix"
    if padding is not None and padding.lengths is None:
        return "it needs all padding at the end of the sequences"
    seq_len = q.size(1) if padding is None else padding.seq_len
    expected = (q.size(-2), seq_len, seq_len)
    if attn_bias is not None and attn_bias.shape != expected:
        return "it needs one attn_bias for the whole batch, of the shape (H, L, L)"
    return None
