"""torch's flex attention, with position bias and padding added to its scores."""

import functools
from typing import Callable, Optional

import torch
from torch import Tensor

from tupe_fairseq.attention.bias import Bias
from tupe_fairseq.attention.merged_mask import merged_mask
from tupe_fairseq.attention.padding import Padding


def flex_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_bias: Optional[Bias],
    padding: Optional[Padding],
    *,
    scaling: float,
    dropout: float,
) -> Tensor:
    """As :func:`eager_attention`, by ``torch.nn.attention.flex_attention``.

    Compiled on a GPU; on the CPU computed step by step, and there torch gives no gradient.

    Raises:
        ValueError: with dropout, which it does not have.
        ImportError: if this torch does not have it.
    """
    if dropout:
        raise ValueError(
            "flex_attention has no dropout; set attention_probs_dropout_prob=0 in the config, "
            "or train with attn_implementation 'sdpa'"
        )
    packed = padding if padding is not None and padding.packed else None
    if packed is not None:
        q, k, v = (packed.unpack(x) for x in (q, k, v))
    batch, seq_len, num_heads, _ = q.shape
    # B x L x H x K -> B x H x L x K
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    bias = merged_mask(attn_bias, padding, slice(None), q.dtype)
    score_mod = None
    if bias is not None:
        bias = bias.expand(batch, num_heads, seq_len, seq_len)

        def score_mod(score, b, h, query, key):
            return score + bias[b, h, query, key]

    attend = _torch_flex_attention(q.device.type != "cpu" and not torch.compiler.is_compiling())
    attended = attend(q, k, v, score_mod=score_mod, scale=scaling).transpose(1, 2)
    return attended if packed is None else packed.pack(attended)


@functools.lru_cache(maxsize=None)
def _torch_flex_attention(is_compiled: bool) -> Callable[..., Tensor]:
    try:
        from torch.nn.attention import flex_attention as module
    except ImportError:
        raise ImportError(
            f"attn_implementation 'flex_attention' needs torch 2.5 or later, and this is "
            f"{torch.__version__}; use 'sdpa'"
        ) from None
    return torch.compile(module.flex_attention) if is_compiled else module.flex_attention
