"""Self-attention with a position bias, in implementations that agree.

    attend(qkv, bias, sequences, *, scaling, dropout) = dropout(softmax(scaling * q k^T + bias)) v

Shape: qkv (N, 3, H, K), the tokens of all sequences one after the other, so that no implementation
copies them; bias (H, n, n) or None, rows are queries, of which a sequence takes the first rows and
columns; ``sequences``: see ``Sequences`` -> (N, H, K).

``eager`` is the reference; ``sdpa`` is torch's fused attention; ``chunked`` trains on the CPU. The
first two also take ``content_bias``, a function of q and k, both (B, H, L, K), whose result is
added to the bias.
"""

from types import ModuleType

import torch

from tupe_fairseq.attention import chunked, eager, sdpa
from tupe_fairseq.attention.mask import make_mask
from tupe_fairseq.attention.sequences import Sequences

__all__ = ["Sequences", "choose", "chunked", "eager", "make_mask", "sdpa"]

# scores of a sequence, over its heads, below which a loop over sequences costs more than it saves
FEW_SCORES = 2**14


def unsupported_reason(sequences: Sequences, has_content_bias: bool) -> str | None:
    """Why ``chunked`` cannot compute a forward pass, or None."""
    if sequences.device.type != "cpu":
        return f"it runs on the CPU only, and the tensors are on {sequences.device.type}"
    if torch.compiler.is_exporting():
        return "torch.export would fix the lengths of this batch"
    if has_content_bias:
        return "it needs one bias for the whole batch, and this position encoding reads the words"
    if sequences.lengths is None:
        return "it needs all padding at the end of the sequences"
    return None


def choose(
    name: str, sequences: Sequences, *, num_heads: int, has_content_bias: bool, is_trained: bool
) -> ModuleType:
    """The implementation of a forward pass: the module eager, sdpa or chunked.

    Args:
        name (str): --attn-impl; ``auto`` takes the fastest.
        has_content_bias (bool): the position encoding adds scores that depend on queries or keys.
        is_trained (bool): there is dropout, or a bias that gets a gradient.
    """
    reason = unsupported_reason(sequences, has_content_bias)
    if name == "chunked" and reason is not None:
        raise RuntimeError(f"--attn-impl chunked cannot serve here: {reason}; use --attn-impl auto")
    if name != "auto":
        return {"eager": eager, "sdpa": sdpa, "chunked": chunked}[name]
    # on the CPU torch's kernel has neither dropout nor a gradient for the mask
    if sequences.device.type != "cpu" or torch.compiler.is_exporting() or not is_trained:
        return sdpa
    is_small = num_heads * sequences.longest**2 < FEW_SCORES
    return eager if reason is not None or is_small else chunked
