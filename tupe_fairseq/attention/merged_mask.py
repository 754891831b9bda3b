"""Bias and padding in one mask, made once for all layers of a forward pass."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.attention.bias import Bias
from tupe_fairseq.attention.padding import Padding
from tupe_fairseq.attention.recorded import is_recorded
from tupe_fairseq.attention.shifted import shifted

# A mask of more elements over the whole batch is not kept: each layer makes it again, in parts.
KEPT_ELEMENTS = 2**28
# Rows of a mask that do not begin at a multiple of so many elements are copied by torch's kernel
# for GPUs, in each layer and for each sequence.
ROW = 8


def merged_mask(
    attn_bias: Optional[Bias],
    padding: Optional[Padding],
    rows: slice,
    dtype: torch.dtype,
) -> Optional[Tensor]:
    """What some sequences of a batch add to their scores: the bias, and what hides their padding.

    Where all layers share the bias, the first that asks makes the mask, and the others get the
    same tensor, whose graph they then share.

    A padded key gets half the lowest number: finite, so that no row is without a key, also after a
    bias is added.  A sum and no choice between two: autograd keeps nothing for it, so that
    activation checkpointing finds what it expects whether a layer makes the mask or finds it made.

    Args:
        attn_bias, padding: see :mod:`tupe_fairseq.attention`.
        rows (slice): the sequences.
        dtype (torch.dtype): of q.
    Shape:
        attn_bias broadcastable to (B, H, L, L) -> broadcastable to (rows, H, L, L); None if there
        are neither bias nor padding.
    """
    if padding is None:
        if attn_bias is None:
            return None
        bias = attn_bias.corner(dtype, attn_bias.shape[-1])
        return _wide_rows(_of_rows(bias, rows))[..., : bias.size(-1)]
    hides = padding.once(padding.mask, dtype, lambda: _hiding(padding.mask, dtype))[rows]
    if attn_bias is None:
        return hides

    def merge() -> Tensor:
        bias = shifted(_of_rows(attn_bias.whole(), rows), dtype, padding.mask[rows, None, None])
        return (_wide_rows(bias) + _wide_rows(hides))[..., : bias.size(-1)]

    # each layer has its own of a bias that depends on the words
    is_shared = len(attn_bias.shape) == 3
    if is_shared and (is_recorded() or padding.batch * attn_bias.shape.numel() <= KEPT_ELEMENTS):
        return padding.once(attn_bias.values, (dtype, rows.start, rows.stop), merge)
    return merge()


def _hiding(is_padding: Tensor, dtype: torch.dtype) -> Tensor:
    """bool (B, L) -> (B, 1, 1, L), in ``dtype``: 0 at tokens, half the lowest number at padding."""
    zeros = torch.zeros(is_padding.shape, dtype=dtype, device=is_padding.device)
    return zeros.masked_fill(is_padding, torch.finfo(dtype).min / 2)[:, None, None, :]


def _of_rows(bias: Tensor, rows: slice) -> Tensor:
    """The bias of these sequences, if each has its own."""
    return bias[rows] if bias.dim() == 4 and bias.size(0) > 1 else bias


def _wide_rows(x: Tensor) -> Tensor:
    """With as many more columns as its rows need to begin at a multiple of ``ROW``, on a GPU."""
    if x.device.type == "cpu" or is_recorded() or x.size(-1) % ROW == 0:
        return x
    return F.pad(x, (0, -x.size(-1) % ROW))
