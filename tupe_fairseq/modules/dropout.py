"""Dropout of hidden states."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from tupe_fairseq.attention import HAS_NUMPY, KeepMask

# Elements processed at a time, so that the random numbers stay in cache.
BLOCK = 2**18
# For fewer elements torch's own dropout is faster than the calls here.
SMALLEST = 2**16
WIDE = (torch.float32, torch.float64)
DTYPES = (*WIDE, torch.float16, torch.bfloat16)


class _KeepMaskDropout(torch.autograd.Function):
    """Keeps a seed for the backward pass, not a mask."""

    @staticmethod
    def forward(ctx, x, p):
        keep = KeepMask(p)
        ctx.p, ctx.seed = p, keep.seed
        return _dropped(x, keep)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return _dropped(grad.contiguous(), KeepMask(ctx.p, ctx.seed)), None


def _dropped(x: Tensor, keep: KeepMask) -> Tensor:
    out = torch.empty_like(x)
    for source, target in zip(x.view(-1).split(BLOCK), out.view(-1).split(BLOCK)):
        if x.dtype in WIDE:
            keep.drop(source, out=target).mul_(keep.scale)
        else:  # 16 bits cannot hold the random numbers
            wide = source.float()
            target.copy_(keep.drop(wide, out=wide).mul_(keep.scale))
    return out


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """As ``F.dropout``, with cheaper random numbers on the CPU, where torch's are slow.

    There the probability is rounded to a multiple of 2^-16, and kept elements are
    scaled to match; without numpy it is ``F.dropout``.

    Args:
        x (Tensor): any shape.
        p (float): probability to drop an element.
        training (bool): False leaves x as it is.
    """
    is_cheaper = (
        x.device.type == "cpu"
        and x.dtype in DTYPES
        and x.numel() >= SMALLEST
        and x.is_contiguous()
        and HAS_NUMPY
        and not (hasattr(torch, "compiler") and torch.compiler.is_compiling())
    )
    if training and p > 0 and is_cheaper:
        return _KeepMaskDropout.apply(x, p)
    return F.dropout(x, p, training)
