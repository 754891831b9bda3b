"""Self-attention under a mask of real numbers, in three implementations that agree.

    attend(q, k, v, mask, *, scaling, dropout) = dropout(softmax(scaling * q k^T + mask)) v

Shape: q, k, v (B, L, H, K); mask from ``make_mask``, broadcastable to (B, H, L, L), rows are
queries -> (B, L, H, K), undefined at padding. ``chunked`` takes tokens without padding, the lengths
of their sequences, and as mask the bias (H, L, L).

``eager`` is the reference; ``sdpa`` is torch's fused attention; ``chunked`` trains on the CPU.
"""

import torch

from tupe_fairseq.attention import chunked, eager, sdpa
from tupe_fairseq.attention.padding import Padding
from tupe_fairseq.attention.sdpa import make_mask

__all__ = ["Padding", "choose", "chunked", "eager", "make_mask", "sdpa"]

# scores of a sequence, over its heads, below which a loop over sequences costs more than it saves
FEW_SCORES = 2**14


def unsupported_reason(
    device: torch.device, padding: Padding | None, has_content_bias: bool
) -> str | None:
    """Why ``chunked`` cannot compute a forward pass, or None."""
    if device.type != "cpu":
        return f"it runs on the CPU only, and the tensors are on {device.type}"
    if torch.compiler.is_exporting():
        return "torch.export would fix the lengths of this batch"
    if has_content_bias:
        return "it needs one bias for the whole batch, and this position encoding reads the words"
    if padding is not None and not padding.is_on_right:
        return "it needs all padding at the end of the sequences"
    return None


def choose(
    name: str,
    device: torch.device,
    padding: Padding | None,
    *,
    has_content_bias: bool,
    is_trained: bool,
    num_scores: int,
) -> str:
    """The implementation of a forward pass: eager, sdpa or chunked.

    Args:
        name (str): --attn-impl; ``auto`` takes the fastest.
        has_content_bias (bool): the position encoding adds scores that depend on queries or keys.
        is_trained (bool): there is dropout, or a bias that gets a gradient.
        num_scores (int): scores of a sequence, over its heads.
    """
    reason = unsupported_reason(device, padding, has_content_bias)
    if name == "chunked" and reason is not None:
        raise RuntimeError(f"--attn-impl chunked cannot serve here: {reason}; use --attn-impl auto")
    if name != "auto":
        return name
    # on the CPU torch's kernel has neither dropout nor a gradient for the mask
    if device.type != "cpu" or torch.compiler.is_exporting() or not is_trained:
        return "sdpa"
    return "eager" if reason is not None or num_scores < FEW_SCORES else "chunked"
