"""torch's own fused attention, with the position bias as its mask."""

import contextlib
from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.attention.bias import shared_bias_refusal
from tupe_fairseq.attention.merged_mask import bias_for_kernels, merged_mask
from tupe_fairseq.attention.padding import Padding, batch_spans
from tupe_fairseq.attention.recorded import is_recorded

# A GPU's gradient of the mask is as large as the mask expanded over the batch, so the batch is
# taken in parts of at most so many elements.
MASK_ELEMENTS = 2**26


def sdpa_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_bias: Optional[Tensor],
    padding: Optional[Padding],
    *,
    scaling: float,
    dropout: float,
    kernel_bias: Optional[Tensor] = None,
) -> Tensor:
    """As :func:`eager_attention`, by ``scaled_dot_product_attention``.

    torch computes with a mask in the dtype of q; rows of the bias are shifted before they are
    rounded to it.  On the CPU each sequence is attended to without its padding; elsewhere, and
    where padding is not at the end, under a mask made once for all layers (``merged_mask``).
    """
    if q.device.type == "cpu" and shared_bias_refusal(q, attn_bias, padding) is None:
        spans = batch_spans(q, padding)
        flat_q, flat_k, flat_v = (x if x.dim() == 3 else x.flatten(0, 1) for x in (q, k, v))
        bias = attn_bias
        if attn_bias is not None:
            bias = bias_for_kernels(attn_bias, kernel_bias, q.dtype)
        out = attend_spans(flat_q, flat_k, flat_v, bias, spans, scaling=scaling, dropout=dropout)
        return out.view(q.shape)

    if padding is not None and padding.packed:
        q, k, v = (padding.unpack(x) for x in (q, k, v))
    out = _attend_batch(q, k, v, attn_bias, kernel_bias, padding, scaling, dropout)
    return padding.pack(out) if padding is not None and padding.packed else out


def attend_spans(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Optional[Tensor],
    spans: List[Tuple[int, int]],
    *,
    scaling: float,
    dropout: float = 0.0,
) -> Tensor:
    """Each sequence on its own, under its corner of the one bias; zeros between the sequences.

    Args:
        q, k, v (Tensor): all tokens, one sequence after the other.
        bias (Tensor, optional): the dtype of q.
        spans (list): first token and length of each sequence.
    Shape:
        q, k, v (N, H, K); bias (H, L, L) -> (N, H, K).
    """
    lengths = {length for _, length in spans}
    if len(lengths) == 1 and 0 < sum(length for _, length in spans) == q.size(0):
        return _one_call(q, k, v, bias, lengths.pop(), scaling, dropout)
    parts, end = [q[:0]], 0  # q, so that the result has a gradient even without any real token
    for start, length in spans:
        parts.append(q.new_zeros(start - end, *q.shape[1:]))
        end = start + length
        if length:
            sequence = slice(start, end)
            args = q[sequence], k[sequence], v[sequence], bias, length, scaling, dropout
            parts.append(_one_call(*args))
    parts.append(q.new_zeros(q.size(0) - end, *q.shape[1:]))
    return torch.cat(parts)


def _one_call(q, k, v, bias, length, scaling, dropout) -> Tensor:
    """Sequences of one length: (n * length) x H x K -> the same."""
    # n x H x length x K
    q, k, v = (x.unflatten(0, (-1, length)).transpose(1, 2) for x in (q, k, v))
    mask = None if bias is None else bias[None, :, :length, :length]
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scaling)
    return out.transpose(1, 2).flatten(0, 1)


def _attend_batch(q, k, v, attn_bias, kernel_bias, padding, scaling, dropout) -> Tensor:
    """The batch in parts, with padding written into a mask for each."""
    batch, seq_len, num_heads, _ = q.shape
    parts = []
    is_masked = attn_bias is not None or padding is not None
    with _no_cudnn() if is_masked else contextlib.nullcontext():
        for rows in _parts(batch, num_heads * seq_len * seq_len):
            mask = merged_mask(attn_bias, kernel_bias, padding, rows, q.dtype)
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


def sdpa_refusal(
    q: Tensor, attn_bias: Optional[Tensor], padding: Optional[Padding]
) -> Optional[str]:
    """Why torch's fused attention cannot serve this request, or None."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < (2, 1):
        return f"it needs torch 2.1 or later, and this is {torch.__version__}"
    return None
