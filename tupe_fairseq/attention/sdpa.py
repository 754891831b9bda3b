"""torch's own fused attention, with the position bias as its mask."""

import contextlib
import functools
from typing import List, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.attention.bias import Bias, shared_bias_refusal
from tupe_fairseq.attention.joined import Call, is_one_batch, joined, one_by_one
from tupe_fairseq.attention.merged_mask import merged_mask
from tupe_fairseq.attention.padding import Padding, batch_spans
from tupe_fairseq.attention.recorded import is_recorded
from tupe_fairseq.attention.unpacked import unpacked

# A GPU's gradient of the mask is as large as the mask expanded over the batch, so the batch is
# taken in parts of at most so many elements.
MASK_ELEMENTS = 2**26


def sdpa_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_bias: Optional[Bias],
    padding: Optional[Padding],
    *,
    scaling: float,
    dropout: float,
) -> Tensor:
    """As :func:`eager_attention`, by ``scaled_dot_product_attention``.

    torch computes with a mask in the dtype of q; rows of the bias are shifted before they are
    rounded to it.  On the CPU each sequence is attended to without its padding, and short ones of
    a packed batch share a call (``joined``); elsewhere, and where padding is not at the end, all
    are under a mask made once for all layers (``merged_mask``).
    """
    if q.device.type == "cpu" and shared_bias_refusal(q, attn_bias, padding) is None:
        flat_q, flat_k, flat_v = (x if x.dim() == 3 else x.flatten(0, 1) for x in (q, k, v))
        calls = _calls(q, attn_bias, padding, dropout)
        return attend_calls(flat_q, flat_k, flat_v, calls, scaling, dropout).view(q.shape)

    attend = functools.partial(_attend_batch, scaling=scaling, dropout=dropout)
    return unpacked(attend, q, k, v, attn_bias, padding)


def _calls(
    q: Tensor,
    attn_bias: Optional[Bias],
    padding: Optional[Padding],
    dropout: float,
) -> List[Call]:
    """The sequences of the batch; short ones together, under masks made once for all layers.

    Not with dropout: a layer that is computed again for its gradient must draw as it did at first,
    when it had no gradient.
    """
    spans = batch_spans(q, padding)

    def corner(length: int) -> Optional[Tensor]:
        return None if attn_bias is None else attn_bias.corner(q.dtype, length)

    needs_grad = attn_bias is not None and attn_bias.needs_grad
    if padding is None or not padding.packed or needs_grad or dropout:
        return one_by_one(spans, corner)
    source = padding.mask if attn_bias is None else attn_bias.values
    return padding.once(source, ("joined", q.dtype), lambda: joined(spans, corner, q))


def attend_calls(
    q: Tensor, k: Tensor, v: Tensor, calls: List[Call], scaling: float, dropout: float = 0.0
) -> Tensor:
    """Each call's tokens among themselves, under its mask; zeros between the calls.

    Args:
        q, k, v (Tensor): all tokens, one sequence after the other.
        calls (list of Call): in this order.
    Shape:
        q, k, v (N, H, K) -> (N, H, K).
    """
    if is_one_batch(calls, q.size(0)):
        return _attend(q, k, v, calls[0], scaling, dropout)
    parts, end = [q[:0]], 0  # q, so that the result has a gradient even without any real token
    for call in calls:
        if call.start > end:
            parts.append(q.new_zeros(call.start - end, *q.shape[1:]))
        end = call.start + call.length
        if call.length:
            own = slice(call.start, end)
            parts.append(_attend(q[own], k[own], v[own], call, scaling, dropout))
    if end < q.size(0):
        parts.append(q.new_zeros(q.size(0) - end, *q.shape[1:]))
    return torch.cat(parts)


def _attend(q, k, v, call, scaling, dropout) -> Tensor:
    """Sequences of one length: (n * length) x H x K -> the same."""
    # n x H x length x K
    q, k, v = (x.unflatten(0, (-1, call.length)).transpose(1, 2) for x in (q, k, v))
    mask = None if call.mask is None else call.mask[None]
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scaling)
    return out.transpose(1, 2).flatten(0, 1)


def _attend_batch(q, k, v, attn_bias, padding, scaling, dropout) -> Tensor:
    """The batch in parts, with padding written into a mask for each."""
    batch, seq_len, num_heads, _ = q.shape
    parts = []
    is_masked = attn_bias is not None or padding is not None
    with _no_cudnn() if is_masked else contextlib.nullcontext():
        for rows in _parts(batch, num_heads * seq_len * seq_len):
            mask = merged_mask(attn_bias, padding, rows, q.dtype)
            part_q, part_k, part_v = (x[rows].transpose(1, 2) for x in (q, k, v))
            if mask is not None:
                mask = mask.expand(part_q.size(0), num_heads, seq_len, seq_len)
            out = F.scaled_dot_product_attention(
                part_q, part_k, part_v, attn_mask=mask, dropout_p=dropout, scale=scaling
            )
            parts.append(out.transpose(1, 2))
    return torch.cat(parts)


def _parts(batch: int, elements: int) -> List[slice]:
    """The batch in parts, from the elements of one sequence's mask; one part if it is empty."""
    if is_recorded() or not batch:
        return [slice(None)]
    part = max(MASK_ELEMENTS // elements, 1)
    return [slice(start, start + part) for start in range(0, batch, part)]


def _no_cudnn():
    """cuDNN's kernel gives no gradient for a mask, and wrong results for some lengths with one."""
    if not hasattr(torch.nn, "attention"):  # torch < 2.3, which has no cuDNN kernel either
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])


def sdpa_refusal(q: Tensor, attn_bias: Optional[Bias], padding: Optional[Padding]) -> Optional[str]:
    """Why torch's fused attention cannot serve this request, or None."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < (2, 1):
        return f"it needs torch 2.1 or later, and this is {torch.__version__}"
    return None
