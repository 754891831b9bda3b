"""torch's fused attention."""

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.attention.base import PaddedAttention, aligned, as_dtype


class SdpaAttention(PaddedAttention):
    def attend_batch(self, q, k, v, mask, *, scaling, dropout):
        return attend_fused(q, k, v, mask, scaling=scaling, dropout=dropout)


def attend_fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    *,
    scaling: float,
    dropout: float,
    is_causal: bool = False,
) -> Tensor:
    """As ``attend_eagerly``. ``is_causal``, which needs mask None, hides later keys."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if mask is not None:
        mask = aligned(as_dtype(mask, q.dtype))
        mask = mask.expand(*q.shape[:3], k.size(2))
    if mask is not None and mask.is_cuda and q.size(-1) % 8 == 0 and q.dtype != torch.float64:
        # cuDNN has no gradient for a mask, and wrong results for some lengths. Kernels can only be
        # disabled for the whole process, including other threads, so we call one of them directly
        options = torch.is_grad_enabled(), dropout, False
        efficient = torch.ops.aten._scaled_dot_product_efficient_attention
        return efficient(q, k, v, mask, *options, scale=scaling)[0].transpose(1, 2)
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=is_causal, scale=scaling
    )
    # for ONNX the kernel is decomposed, and its output then has other strides
    is_exported, out = torch.compiler.is_exporting(), out.transpose(1, 2)
    return out.clone(memory_format=torch.contiguous_format) if is_exported else out
