"""Which function attends: the names of transformers' ``attn_implementation``."""

import functools
import inspect
from typing import Callable, Optional

import torch
import transformers
from torch import Tensor, nn

from tupe_fairseq.attention.bias import Bias
from tupe_fairseq.attention.eager import eager_attention
from tupe_fairseq.attention.merged_mask import merged_mask
from tupe_fairseq.attention.padding import Padding
from tupe_fairseq.attention.sdpa import sdpa_attention
from tupe_fairseq.export.remote.flex_attention import flex_attention

try:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
except ImportError:
    raise ImportError(
        "TUPE models need transformers 4.48 or later (4.57 and 5.23 were tested), and this is "
        f"{transformers.__version__}"
    ) from None

OWN_FUNCTIONS = {
    "eager": eager_attention,
    "sdpa": sdpa_attention,
    "flex_attention": flex_attention,
}


def check_name(name: str) -> str:
    """The name itself.

    Raises:
        ValueError: if there is no such implementation, or it would drop the positions.
    """
    attention_function(name)
    return name


def choose(
    name: str,
    q: Tensor,
    attn_bias: Optional[Bias],
    padding: Optional[Padding],
    dropout: float,
) -> Callable[..., Tensor]:
    """The function that serves a request: the one of that name, whatever the request is.

    Raises:
        ValueError: as :func:`check_name`.
    """
    return attention_function(name)


def takes_factors(name: str, x: Tensor, padding: Optional[Padding], num_heads: int) -> bool:
    """Whether layers can have their bias in factors: no function of a model folder reads them."""
    return False


def attention_function(name: str) -> Callable[..., Tensor]:
    """The function of a name: one of this file, or one that is registered with transformers.

    Positions reach attention as a bias of its scores.  A function that does not ask for it by
    name would swallow it among its other keyword arguments, and the model would have no
    positions.

    Raises:
        ValueError: if there is none, or it takes no ``position_bias``.
    """
    if name in OWN_FUNCTIONS:
        return OWN_FUNCTIONS[name]
    if name not in ALL_ATTENTION_FUNCTIONS:
        raise ValueError(
            f"unknown attn_implementation {name!r}; a TUPE model takes {', '.join(OWN_FUNCTIONS)}, "
            "and what is registered with transformers and takes a position_bias"
        )
    function = ALL_ATTENTION_FUNCTIONS[name]
    if "position_bias" not in inspect.signature(function).parameters:
        raise ValueError(
            f"attn_implementation {name!r} takes no position_bias, so the model would silently "
            f"lose its positions; choose {', '.join(OWN_FUNCTIONS)}"
        )
    return functools.partial(_registered_attention, function)


class _Bidirectional(nn.Module):
    """What a function that is registered with transformers asks about the attention it is for."""

    is_causal = False


def _registered_attention(
    function: Callable,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_bias: Optional[Bias],
    padding: Optional[Padding],
    *,
    scaling: float,
    dropout: float,
) -> Tensor:
    """As :func:`eager_attention`, by a function with the signature that transformers has."""
    packed = padding if padding is not None and padding.packed else None
    if packed is not None:
        q, k, v = (packed.unpack(x) for x in (q, k, v))
    batch, seq_len, num_heads, _ = q.shape
    bias = merged_mask(attn_bias, padding, slice(None), q.dtype)
    if bias is not None:
        bias = bias.expand(batch, num_heads, seq_len, seq_len)
    module = _Bidirectional().train(torch.is_grad_enabled())
    # B x L x H x K -> B x H x L x K
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    attended, _ = function(
        module, q, k, v, None, scaling=scaling, dropout=dropout, is_causal=False, position_bias=bias
    )
    return attended if packed is None else packed.pack(attended)
