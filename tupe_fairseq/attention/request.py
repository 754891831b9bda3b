"""What the implementations that loop over sequences ask of a request."""

from typing import List, Optional, Tuple

from torch import Tensor

from tupe_fairseq.attention.padding import Padding


def batch_spans(q: Tensor, padding: Optional[Padding]) -> List[Tuple[int, int]]:
    """First token and length of each sequence, among the tokens of the batch one after another.

    Args:
        q (Tensor): (B, L, H, K), or (N, H, K) with packed ``padding``.
        padding (Padding, optional): None where there is none.
    """
    if padding is not None:
        return padding.spans
    batch, seq_len = q.shape[:2]
    return [(b * seq_len, seq_len) for b in range(batch)]


def shared_bias_refusal(
    q: Tensor, attn_bias: Optional[Tensor], padding: Optional[Padding]
) -> Optional[str]:
    """Why a request does not fit one bias for the whole batch and padding at the end, or None."""
    if padding is not None and padding.lengths is None:
        return "it needs all padding at the end of the sequences"
    seq_len = q.size(1) if padding is None else padding.seq_len
    expected = (q.size(-2), seq_len, seq_len)
    if attn_bias is not None and attn_bias.shape != expected:
        return f"it needs an attn_bias of shape {expected}, not {tuple(attn_bias.shape)}"
    return None
