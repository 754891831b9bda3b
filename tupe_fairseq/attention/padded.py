"""Packed tokens, through attention of padded batches."""

from collections.abc import Callable

import torch
from torch import Tensor

from tupe_fairseq.attention.mask import make_mask
from tupe_fairseq.attention.sequences import Masks, Sequences


def make_masks(bias: Tensor | None, sequences: Sequences, dtype: torch.dtype) -> Masks:
    """The mask of each padded batch, see ``make_mask``."""
    sizes = [batch.shape[1] for batch in sequences.batches]
    biases = [None if bias is None else bias[..., :n, :n] for n in sizes]
    return tuple(make_mask(b, x.hidden, dtype) for b, x in zip(biases, sequences.batches))


def attend(
    attend_batch: Callable[..., Tensor],
    qkv: Tensor,
    masks: Masks,
    sequences: Sequences,
    *,
    content_bias: Callable[[Tensor, Tensor], Tensor] | None = None,
    **options: float,
) -> Tensor:
    """attend_batch(q, k, v, mask) of each batch: (N, 3, H, K) -> (N, H, K)."""
    outs = []
    for batch, mask in zip(sequences.batches, masks, strict=True):
        q, k, v = batch.unpack(qkv).unbind(2)
        if content_bias is not None:
            content = content_bias(q.transpose(1, 2), k.transpose(1, 2))
            mask = content if mask is None else mask + content
        outs.append(batch.pack(attend_batch(q, k, v, mask, **options)))
    return outs[0] if sequences.order is None else torch.cat(outs).index_select(0, sequences.order)
