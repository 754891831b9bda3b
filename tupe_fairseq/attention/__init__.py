"""Self-attention with a position bias, in implementations that agree.

    masks = make_masks(bias, sequences, dtype), once for all layers; dtype is that of q, k and v
    attend(qkv, masks, sequences, *, scaling, dropout)
        = dropout(softmax(scaling * q k^T + bias)) v

Shape: qkv (N, 3, H, K), the tokens of all sequences one after the other, so that no implementation
copies them; bias (H, n, n) or None, rows are queries, of which a sequence takes the first rows and
columns; ``sequences``: see ``Sequences`` -> (N, H, K).

``eager`` is the reference; ``sdpa`` is torch's fused attention; ``chunked`` trains on the CPU;
``triton`` is for GPUs. The first two also take ``content_bias``, a function of q and k, both
(B, H, L, K), whose result is added to the bias; their masks are then float32 or wider.
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

# scores of a sequence, over its heads, below which a loop over sequences costs more than it saves
FEW_SCORES = 2**14
WIDEST_HEAD = 128  # of triton


def check(name: str, *, head_dim: int, has_content_bias: bool) -> None:
    """Refuse a ``--attn-impl`` that no input would suit."""
    reason = None
    if name in ("chunked", "triton") and has_content_bias:
        reason = "it needs one bias for the whole batch, and this position encoding reads the words"
    elif name == "triton" and head_dim > WIDEST_HEAD:
        reason = f"it takes heads of a width up to {WIDEST_HEAD}, not {head_dim}"
    elif name == "triton" and importlib.util.find_spec("triton") is None:
        reason = "triton is not installed"
    _refuse(name, reason)


def _refuse(name: str, reason: str | None) -> None:
    if reason is not None:
        raise ValueError(f"--attn-impl {name} cannot serve here: {reason}; use --attn-impl auto")


@functools.cache
def is_fast_in_triton(
    device: torch.device, dtype: torch.dtype, head_dim: int, has_content_bias: bool
) -> bool:
    """Whether ``auto`` takes triton: where it was measured, on an H100."""
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
    """The module that serves in a forward pass; ``auto`` takes the fastest that has been measured.

    ``is_trained``: there is dropout, or a bias that gets a gradient.
    """
    is_exported = torch.compiler.is_exporting()
    if name == "auto" and sequences.lengths is not None and not is_exported:
        if is_fast_in_triton(sequences.device, dtype, head_dim, has_content_bias):
            name = "triton"
    if name == "auto":
        # on the CPU torch's kernel has neither dropout nor a gradient for the mask
        if sequences.device.type != "cpu" or is_exported or not is_trained:
            return sdpa
        is_small = num_heads * sequences.longest**2 < FEW_SCORES
        return eager if has_content_bias or is_small or sequences.lengths is None else chunked
    module = importlib.import_module(f"tupe_fairseq.attention.{name}")  # triton takes a second
    reason = None
    if name in ("chunked", "triton") and is_exported:
        reason = "torch.export would fix the lengths of this batch"
    elif name in ("chunked", "triton") and sequences.lengths is None:
        reason = "it needs all padding at the end of the sequences"
    elif name == "chunked" and sequences.device.type != "cpu":
        reason = f"it runs on the CPU only, and the tensors are on {sequences.device.type}"
    elif name == "triton":
        reason = module.unsupported_reason(sequences.device, dtype)
    _refuse(name, reason)
    return module
