"""Attention of packed tokens in padded batches, with masks that add the bias and hide padding."""

from abc import abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.attention.base import Attention, ContentBias


class PaddedAttention(Attention):
    """Attention of one padded batch after the other; a subclass says how a batch attends."""

    masks: list[Tensor | None]

    @abstractmethod
    def attend_batch(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        *,
        scaling: float,
        dropout: float,
    ) -> Tensor:
        """dropout(softmax(scaling * q k^T + mask)) v; q, k, v (B, L, H, K), mask (B, H, L, L)."""

    def make_masks(self, bias: Tensor | None, dtype: torch.dtype) -> None:
        """The mask of each padded batch, see :func:`make_mask`."""
        batches = self.sequences.batches
        biases = [None if bias is None else bias[..., : x.shape[1], : x.shape[1]] for x in batches]
        self.masks = [make_mask(b, x.hidden, dtype) for b, x in zip(biases, batches)]

    def attend(
        self, qkv: Tensor, content_bias: ContentBias | None, *, scaling: float, dropout: float
    ) -> Tensor:
        outs = []
        for batch, mask in zip(self.sequences.batches, self.masks, strict=True):
            q, k, v = batch.unpack(qkv).unbind(2)
            if content_bias is not None:
                content = content_bias(q.transpose(1, 2), k.transpose(1, 2))
                mask = content if mask is None else mask + content
            out = self.attend_batch(q, k, v, mask, scaling=scaling, dropout=dropout)
            outs.append(batch.pack(out))
        order = self.sequences.order
        return outs[0] if order is None else torch.cat(outs).index_select(0, order)


def make_mask(bias: Tensor | None, hidden: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """The position bias, with half the dtype's lowest value where a key is hidden from a query.

    This value is finite, so that a row without any visible key does not become NaN.

    Shape: bias (H, L, L) or (B, H, L, L), hidden bool -> broadcastable to (B, H, L, L).
    """
    if bias is not None:
        bias = as_dtype(bias, dtype)
    if hidden is not None:  # after the cast, because this is most of the work
        bias = torch.zeros((), dtype=dtype, device=hidden.device) if bias is None else bias
        bias = bias.masked_fill(hidden, torch.finfo(dtype).min / 2)
    return None if bias is None else aligned(bias)


def as_dtype(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Cast the mask to the scores' dtype; for 16 bits, shift the maximum of each row to 0.

    softmax ignores a constant that is added to a row, and 16-bit floats are most precise near 0:
    ALiBi's row spans hundreds. The gradient of a row sums to 0, so the constant has no gradient.
    """
    if torch.finfo(dtype).bits < 32 and mask.dtype != dtype:
        mask = mask - mask.detach().amax(dim=-1, keepdim=True)
    return mask.to(dtype)


def aligned(mask: Tensor) -> Tensor:
    """On a GPU, make rows contiguous with a stride of a multiple of 8, as torch's kernel needs."""
    if mask.is_cuda and mask.dim() > 1:
        if mask.stride(-1) != 1:  # from a table with a column for each head
            mask = mask.clone(memory_format=torch.contiguous_format)
        if mask.stride(-2) % 8:
            mask = F.pad(mask, (0, -mask.size(-1) % 8)).narrow(-1, 0, mask.size(-1))
    return mask


def scores_dtype(x: Tensor) -> torch.dtype:
    """The dtype of a product with x, such as q, k and v: autocast's, if it is on."""
    device = x.device.type
    is_autocast = not x.is_meta and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if is_autocast else x.dtype
