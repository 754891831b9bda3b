"""torch's fused attention, and the mask that adds positions and hides padding."""

import contextlib

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from tupe_fairseq.attention.padding import Padding


def make_mask(bias: Tensor | None, padding: Padding | None, dtype: torch.dtype) -> Tensor | None:
    """The position bias, and half the lowest number where a query must not see a key.

    That is finite, so that a row without any visible key gives no NaN. Made once for all layers.

    Shape: bias (H, L, L) or (B, H, L, L) -> broadcastable to (B, H, L, L); None for nothing to add.
    """
    if padding is None:
        return None if bias is None else as_dtype(bias, dtype)
    hidden = padding.mask[:, None, None, :]
    if padding.documents is not None:
        documents = padding.documents
        hidden = hidden | (documents[:, None, :, None] != documents[:, None, None, :])
    if bias is None:
        wide = torch.promote_types(dtype, torch.float32)
        bias = torch.zeros((), dtype=wide, device=hidden.device)
    return as_dtype(bias.masked_fill(hidden, torch.finfo(bias.dtype).min / 2), dtype)


def as_dtype(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """The mask in the dtype of the scores; in 16 bits, with the maximum of each row moved to 0.

    softmax does not see a constant in a row, and 16 bits are finest near 0: ALiBi's row spans
    hundreds. The gradient of a row sums to 0, so the constant has none.
    """
    if torch.finfo(dtype).bits < 32 and mask.dtype != dtype:
        mask = mask - mask.detach().amax(dim=-1, keepdim=True)
    mask = mask.to(dtype)
    if mask.is_cuda and mask.size(-1) % 8:  # or torch copies the mask in each layer, to align rows
        mask = F.pad(mask, (0, -mask.size(-1) % 8))[..., : mask.size(-1)]
    return mask


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, scaling: float, dropout: float
) -> Tensor:
    """As ``eager.attend``, with ``F.scaled_dot_product_attention``."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    kernels: contextlib.AbstractContextManager = contextlib.nullcontext()
    if mask is not None:
        mask = as_dtype(mask, q.dtype).expand(*q.shape[:3], k.size(2))
        if mask.is_cuda:  # cuDNN gives no gradient for a mask, and wrong results for some lengths
            kernels = sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
    with kernels:
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, scale=scaling
        )
    return out.transpose(1, 2)
