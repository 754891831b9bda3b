"""Self-attention with a position bias, in implementations that agree.

    attend(qkv, bias, sequences, *, scaling, dropout) = dropout(softmax(scaling * q k^T + bias)) v

Shape: qkv (N, 3, H, K), the tokens of all sequences one after the other, so that no implementation
copies them; bias (H, n, n) or None, rows are queries, of which a sequence takes the first rows and
columns; ``sequences``: see ``Sequences`` -> (N, H, K).

``eager`` is the reference; ``sdpa`` is torch's fused attention; ``chunked`` trains on the CPU;
``triton`` is for GPUs, and has been run in Triton's interpreter alone. The first two also take
``content_bias``, a function of q and k, both (B, H, L, K), whose result is added to the bias.
"""

import importlib.util
from types import ModuleType

import torch

from tupe_fairseq.attention import chunked, eager, sdpa
from tupe_fairseq.attention.mask import make_mask, scores_dtype
from tupe_fairseq.attention.sequences import Sequences

__all__ = ["Sequences", "choose", "chunked", "eager", "make_mask", "scores_dtype", "sdpa"]

# scores of a sequence, over its heads, below which a loop over sequences costs more than it saves
FEW_SCORES = 2**14


def unsupported_reason(
    name: str, sequences: Sequences, dtype: torch.dtype, head_dim: int, has_content_bias: bool
) -> str | None:
    """Why ``chunked`` or ``triton`` cannot compute a forward pass, or None."""
    if torch.compiler.is_exporting():
        return "torch.export would fix the lengths of this batch"
    if has_content_bias:
        return "it needs one bias for the whole batch, and this position encoding reads the words"
    if name == "triton":
        if importlib.util.find_spec("triton") is None:
            return "triton is not installed"
        reason = _module("triton").unsupported_reason(sequences.device, dtype, head_dim)
        if reason is not None:
            return reason
    elif sequences.device.type != "cpu":
        return f"it runs on the CPU only, and the tensors are on {sequences.device.type}"
    if sequences.lengths is None:
        return "it needs all padding at the end of the sequences"
    return None


def _module(name: str) -> ModuleType:
    """An implementation; triton takes a second to be imported."""
    return importlib.import_module(f"tupe_fairseq.attention.{name}")


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
    """The implementation of a forward pass: the module eager, sdpa, chunked or triton.

    Args:
        name (str): --attn-impl; ``auto`` takes the fastest that has been measured.
        dtype: of q, k and v.
        has_content_bias (bool): the position encoding adds scores that depend on queries or keys.
        is_trained (bool): there is dropout, or a bias that gets a gradient.
    """
    if name in ("eager", "sdpa"):
        return _module(name)
    own = "chunked" if name == "auto" else name
    reason = unsupported_reason(own, sequences, dtype, head_dim, has_content_bias)
    if name != "auto":
        if reason is not None:
            raise RuntimeError(
                f"--attn-impl {name} cannot serve here: {reason}; use --attn-impl auto"
            )
        return _module(name)
    # on the CPU torch's kernel has neither dropout nor a gradient for the mask
    if sequences.device.type != "cpu" or torch.compiler.is_exporting() or not is_trained:
        return sdpa
    is_small = num_heads * sequences.longest**2 < FEW_SCORES
    return eager if reason is not None or is_small else chunked
