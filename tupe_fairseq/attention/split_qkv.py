"""One projection for queries, keys and values, taken apart without a copy either way."""

from typing import Tuple

import torch
from torch import Tensor

from tupe_fairseq.attention.recorded import is_recorded


class _SplitQKV(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv):
        return qkv.unbind(-3)

    @staticmethod
    def backward(ctx, *grads):
        return _joined(grads)


def _joined(grads) -> Tensor:
    """The three gradients in one tensor: the buffer they are slices of, or else a copy."""
    whole = grads[0]._base
    if whole is not None and whole.is_contiguous() and whole.numel() == 3 * grads[0].numel():
        joined = whole.view(*grads[0].shape[:-2], 3, *grads[0].shape[-2:])
        if all(
            grad._base is whole and _is_same_view(grad, part)
            for grad, part in zip(grads, joined.unbind(-3))
        ):
            return joined
    return torch.stack(grads, dim=-3)


def _is_same_view(a: Tensor, b: Tensor) -> bool:
    """Whether two views of one tensor, of one shape, hold the same elements in the same order."""
    steps = zip(a.shape, a.stride(), b.stride())
    return a.storage_offset() == b.storage_offset() and all(
        step_a == step_b for size, step_a, step_b in steps if size > 1
    )


def split_qkv(qkv: Tensor, name: str = "auto") -> Tuple[Tensor, ...]:
    """Queries, keys and values of one projection.

    As ``qkv.unbind(-3)``; but where an implementation writes its three gradients into one buffer
    of that layout, the projection gets this buffer, and not a copy of it.  Eager and sdpa write
    none, and torch.func transforms ``unbind`` alone.

    Args:
        qkv (Tensor): the projection.
        name (str): the implementation that is asked for.
    Shape:
        (..., 3, H, K) -> three times (..., H, K), views.
    """
    if name in ("eager", "sdpa") or is_recorded():
        return qkv.unbind(-3)
    return _SplitQKV.apply(qkv)
