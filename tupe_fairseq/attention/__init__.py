"""Self-attention with a position bias, in several implementations with the same results.

    masks = make_masks(bias, sequences, dtype), once for all layers; dtype is that of q, k and v
    attend(qkv, masks, sequences, *, scaling, dropout)
        = dropout(softmax(scaling * q k^T + bias)) v

Shape: qkv (N, 3, H, K) has the tokens of all sequences one after the other, so that they need not
be copied; bias (H, n, n) or None, rows are queries, a sequence uses the first rows and columns;
``sequences``: see ``Sequences`` -> (N, H, K).

``eager`` is the reference, ``sdpa`` is torch's fused attention, ``chunked`` is for training on the
CPU, ``triton`` is for GPUs. The first two also take ``content_bias``, a function of q and k, both
(B, H, L, K). Its result is added to the bias; their masks are then float32 or wider.
"""

import functools
import importlib
import importlib.util
from types import ModuleType

import torch

from tupe_fairseq.attention import chunked, eager, sdpa
from tupe_fairseq.attention.padded import make_mask, scores_dtype
from tupe_fairseq.attention.sequences import Sequences

__all__ = ["Sequences", "check", "choose", "chunked", "eager", "make_mask", "scores_dtype", "sdpa"]

# with fewer scores per sequence, over all heads, a loop over sequences costs more than it saves
FEW_SCORES = 2**14
WIDEST_HEAD = 128  # the largest head_dim of triton


def check(name: str, *, head_dim: int, has_content_bias: bool) -> None:
    """Refuse an ``--attn-impl`` that this model can never use."""
    reason = None
    if name in ("chunked", "triton") and has_content_bias:
        reason = "it needs one bias for the whole batch, but this position encoding reads the words"
    elif name == "triton" and head_dim > WIDEST_HEAD:
        reason = f"it supports a head_dim up to {WIDEST_HEAD}, not {head_dim}"
    elif name == "triton" and importlib.util.find_spec("triton") is None:
        reason = "triton is not installed"
    _refuse(name, reason)


def _refuse(name: str, reason: str | None) -> None:
    if reason is not None:
        raise ValueError(f"attn_impl {name} cannot be used here: {reason}; use auto")


@functools.cache
def is_fast_in_triton(
    device: torch.device, dtype: torch.dtype, head_dim: int, has_content_bias: bool
) -> bool:
    """Whether ``auto`` takes triton: only where it was measured, on an H100."""
    return (
        device.type == "cuda"
        and dtype in (torch.float16, torch.bfloat16)
        and torch.cuda.get_device_capability(device) == (9, 0)
        and head_dim <= WIDEST_HEAD
        and not has_content_bias
        and importlib.util.find_spec("triton") is not None
    )


def choose(
    name: str,
    sequences: Sequences,
    dtype: torch.dtype,
    *,
    num_heads: int,
    head_dim: int,
    has_content_bias: bool,
    is_trained: bool,
) -> ModuleType:
    """The implementation for a forward pass; ``auto`` takes the fastest one that was measured.

    ``is_trained``: dropout is on, or the bias gets a gradient.
    """
    is_exported = torch.compiler.is_exporting()
    if name == "auto" and sequences.lengths is not None and not is_exported:
        if is_fast_in_triton(sequences.device, dtype, head_dim, has_content_bias):
            name = "triton"
    if name == "auto":
        # torch's CPU kernel has neither dropout nor a gradient for the mask
        if sequences.device.type != "cpu" or is_exported or not is_trained:
            return sdpa
        is_small = num_heads * sequences.longest**2 < FEW_SCORES
        return eager if has_content_bias or is_small or sequences.lengths is None else chunked
    module = importlib.import_module(f"tupe_fairseq.attention.{name}")  # triton takes a second
    reason = None
    if name in ("chunked", "triton") and is_exported:
        reason = "torch.export would hard-code the lengths of this batch"
    elif name in ("chunked", "triton") and sequences.lengths is None:
        reason = "it needs all padding at the end of the sequences"
    elif name == "chunked" and sequences.device.type != "cpu":
        reason = f"it runs on the CPU only, but the tensors are on {sequences.device.type}"
    elif name == "triton":
        reason = module.unsupported_reason(sequences.device, dtype)
    _refuse(name, reason)
    return module
