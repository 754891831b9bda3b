"""The mask that adds positions to scores and hides padding."""

import torch
import torch.nn.functional as F
from torch import Tensor


def make_mask(bias: Tensor | None, hidden: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """The position bias, and half the lowest number where a query must not see a key.

    That is finite, so that a row without any visible key gives no NaN.

    Shape: bias (H, L, L) or (B, H, L, L), hidden bool -> broadcastable to (B, H, L, L).
    """
    if bias is not None:
        bias = as_dtype(bias, dtype)
    if hidden is not None:  # after the cast: in 16 bits this is most of the work
        bias = torch.zeros((), dtype=dtype, device=hidden.device) if bias is None else bias
        bias = bias.masked_fill(hidden, torch.finfo(dtype).min / 2)
    return None if bias is None else aligned(bias)


def as_dtype(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """The mask in the dtype of the scores; in 16 bits, with the maximum of each row moved to 0.

    softmax does not see a constant in a row, and 16 bits are finest near 0: ALiBi's row spans
    hundreds. The gradient of a row sums to 0, so the constant has none.
    """
    if torch.finfo(dtype).bits < 32 and mask.dtype != dtype:
        mask = mask - mask.detach().amax(dim=-1, keepdim=True)
    return mask.to(dtype)


def aligned(mask: Tensor) -> Tensor:
    """With rows of a multiple of 8 on a GPU, or torch would copy the mask to align them."""
    if mask.is_cuda and mask.dim() > 1 and mask.stride(-2) % 8:
        mask = F.pad(mask, (0, -mask.size(-1) % 8)).narrow(-1, 0, mask.size(-1))
    return mask


def scores_dtype(x: Tensor) -> torch.dtype:
    """That of q, k and v."""
    device = x.device.type
    is_autocast = not x.is_meta and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if is_autocast else x.dtype
