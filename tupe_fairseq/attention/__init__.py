"""Self-attention with a position bias, in several implementations with the same results.

``eager`` is the reference, ``sdpa`` is torch's fused attention, ``chunked`` is for training on the
CPU, ``triton`` is for GPUs. The first two also take encodings that read the words. Each is a
subclass of ``Attention``.
"""

import functools
import importlib.util
from typing import NamedTuple

import torch

from tupe_fairseq.attention.base import Attention, make_mask, scores_dtype
from tupe_fairseq.attention.chunked import ChunkedAttention
from tupe_fairseq.attention.eager import EagerAttention
from tupe_fairseq.attention.sdpa import SdpaAttention
from tupe_fairseq.attention.sequences import Sequences, is_traced

__all__ = ["Attention", "Scores", "Sequences", "check", "choose", "make_mask", "scores_dtype"]

# with fewer scores per sequence, over all heads, a loop over sequences costs more than it saves
FEW_SCORES = 2**14
WIDEST_HEAD = 128  # the largest head_dim of triton


class Scores(NamedTuple):
    """What an implementation must be able to compute."""

    dtype: torch.dtype
    num_heads: int
    head_dim: int
    has_content_bias: bool


def check(name: str, scores: Scores) -> None:
    """Refuse an ``--attn-impl`` that this model can never use."""
    reason = None
    if name in ("chunked", "triton") and scores.has_content_bias:
        reason = "it needs one bias for the whole batch, but this position encoding reads the words"
    elif name == "triton" and scores.head_dim > WIDEST_HEAD:
        reason = f"it supports a head_dim up to {WIDEST_HEAD}, not {scores.head_dim}"
    elif name == "triton" and importlib.util.find_spec("triton") is None:
        reason = "triton is not installed"
    _refuse(name, reason)


def _refuse(name: str, reason: str | None) -> None:
    if reason is not None:
        raise ValueError(f"attn_impl {name} cannot be used here: {reason}; use auto")


@functools.cache
def is_fast_in_triton(device: torch.device, scores: Scores) -> bool:
    """Whether ``auto`` takes triton: only where it was measured, on an H100."""
    return (
        device.type == "cuda"
        and scores.dtype in (torch.float16, torch.bfloat16)
        and torch.cuda.get_device_capability(device) == (9, 0)
        and scores.head_dim <= WIDEST_HEAD
        and not scores.has_content_bias
        and importlib.util.find_spec("triton") is not None
    )


def choose(name: str, sequences: Sequences, scores: Scores, is_trained: bool) -> type[Attention]:
    """The implementation for a forward pass; ``auto`` takes the fastest one that was measured.

    ``is_trained``: dropout is on, or the bias gets a gradient.
    """
    device, is_packed = sequences.device, sequences.lengths is not None
    if name == "auto" and is_packed and is_fast_in_triton(device, scores):
        name = "triton"
    elif name == "auto" and (device.type != "cpu" or is_traced(device) or not is_trained):
        name = "sdpa"  # on the CPU it has neither dropout nor a gradient for the mask
    elif name == "auto":
        is_small = scores.num_heads * sequences.longest**2 < FEW_SCORES
        is_eager = scores.has_content_bias or is_small or not is_packed
        name = "eager" if is_eager else "chunked"
    if name in ("eager", "sdpa"):
        return EagerAttention if name == "eager" else SdpaAttention
    reason = None
    if is_traced(device):
        reason = "a compiled or exported model would hard-code the lengths of this batch"
    elif not is_packed:
        reason = "it needs all padding at the end of the sequences"
    elif name == "chunked" and device.type != "cpu":
        reason = f"it runs on the CPU only, but the tensors are on {device.type}"
    _refuse(name, reason)
    if name == "chunked":
        return ChunkedAttention
    from tupe_fairseq.attention import triton  # takes a second

    _refuse(name, triton.unsupported_reason(device, scores.dtype))
    return triton.TritonAttention
