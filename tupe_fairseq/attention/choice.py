"""The catalogue of implementations, and which of them serves a request."""

import functools
import logging
from typing import Callable, Dict, List, NamedTuple, Optional

import torch
from torch import Tensor

from tupe_fairseq.attention.bias import Bias
from tupe_fairseq.attention.chunked import chunked_attention, chunked_refusal
from tupe_fairseq.attention.eager import eager_attention
from tupe_fairseq.attention.keep_mask import HAS_NUMPY
from tupe_fairseq.attention.padding import Padding
from tupe_fairseq.attention.recorded import is_recorded
from tupe_fairseq.attention.sdpa import sdpa_attention, sdpa_refusal
from tupe_fairseq.attention.triton import triton_attention
from tupe_fairseq.attention.triton_refusal import triton_refusal

# Scores of a sequence, over its heads, below which the loop over sequences that the others make on
# the CPU costs more than it saves (measured: 12 heads from T = 32 on, 2 heads from T = 128).
FEW_SCORES = 2**14
# Numbers of a bias from which on it is taken in factors.  With gradients 4 heads from T = 2,048 on:
# whole it takes 64 MiB then, its gradient as much in each layer, and attention forward and backward
# is about as fast in factors (measured: 4 heads, float32, one thread, in times of the fused kernel
# without a bias: T = 512 whole 1.6, in factors 2.7; T = 2,048 2.2 and 2.3; T = 4,096 2.0 and 1.9,
# and to make the whole bias and to add up its gradients comes on top).  Without gradients a whole
# bias that is there makes sdpa 1.8 times as fast as factors, and multiplying it out takes as long
# as two layers, so that memory decides: up to 256 MiB, what SharedBias keeps.  On a GPU, where
# nothing was timed yet, memory decides in either case.
MANY_SCORES = 2**24
MANY_FIXED_SCORES = 2**26

logger = logging.getLogger(__name__)


class Implementation(NamedTuple):
    """A function that attends, and one that says why it cannot, from q, attn_bias and padding."""

    attend: Callable[..., Tensor]
    refusal: Callable[[Tensor, Optional[Bias], Optional[Padding]], Optional[str]]


IMPLEMENTATIONS: Dict[str, Implementation] = {
    "eager": Implementation(eager_attention, lambda q, attn_bias, padding: None),
    "sdpa": Implementation(sdpa_attention, sdpa_refusal),
    "chunked": Implementation(chunked_attention, chunked_refusal),
    "triton": Implementation(triton_attention, triton_refusal),
}
#: what --attn-impl may be
NAMES = ("auto", *IMPLEMENTATIONS)


def check_name(name: str) -> str:
    """The name itself.

    Raises:
        ValueError: if there is no such implementation; the message lists the known ones.
    """
    if name not in NAMES:
        raise ValueError(f"unknown attention {name!r}; --attn-impl is one of {', '.join(NAMES)}")
    return name


def choose(
    name: str,
    q: Tensor,
    attn_bias: Optional[Bias],
    padding: Optional[Padding],
    dropout: float,
) -> Callable[..., Tensor]:
    """The function that serves a request.

    Args:
        name (str): one of ``NAMES``; "auto" takes the fastest that can, and logs which, once for
            each kind of request.
        q, attn_bias, padding, dropout: the request, see :mod:`tupe_fairseq.attention`.
    Raises:
        RuntimeError: if the named one cannot serve the request.
    """
    if name == "auto":
        return _first_that_can(q, attn_bias, padding, dropout)
    reason = IMPLEMENTATIONS[name].refusal(q, attn_bias, padding)
    if reason is not None:
        bias = "none" if attn_bias is None else tuple(attn_bias.shape)
        raise RuntimeError(
            f"--attn-impl {name} does not support this: {reason} (q: {tuple(q.shape)}, attn_bias: "
            f'{bias}); use --attn-impl auto (attn_impl="auto" in from_pretrained)'
        )
    return IMPLEMENTATIONS[name].attend


def takes_factors(name: str, x: Tensor, padding: Optional[Padding], num_heads: int) -> bool:
    """Whether layers had better have their bias in factors than whole.

    Args:
        name (str): one of ``NAMES``.
        x (Tensor): what the layers get, (B, L, D), or (N, D) with packed ``padding``.
        padding (Padding, optional): that of the batch.
        num_heads (int): number of heads.
    """
    if is_recorded() or (padding is not None and padding.lengths is None):
        return False  # chunked and triton refuse it
    seq_len = x.size(1) if padding is None else padding.seq_len
    scores = num_heads * seq_len**2
    if name in ("auto", "chunked") and x.device.type == "cpu":
        return scores >= (MANY_SCORES if torch.is_grad_enabled() else MANY_FIXED_SCORES)
    if name not in ("auto", "triton") or scores < MANY_FIXED_SCORES:
        return False
    return triton_refusal(x.unflatten(-1, (num_heads, -1)), None, padding) is None


def _first_that_can(q, attn_bias, padding, dropout):
    training = torch.is_grad_enabled() and (
        q.requires_grad or (attn_bias is not None and attn_bias.needs_grad)
    )
    passed_over: List[str] = []
    for name in _preference(q, attn_bias, padding, dropout, training):
        implementation = IMPLEMENTATIONS[name]
        reason = implementation.refusal(q, attn_bias, padding)
        if reason is None:
            _log(name, q.device.type, str(q.dtype), training, tuple(passed_over))
            return implementation.attend
        passed_over.append(f"{name}: {reason}")
    raise AssertionError("eager serves every request")


def _preference(q, attn_bias, padding, dropout, training) -> List[str]:
    """Fastest first."""
    if is_recorded():
        return ["sdpa", "eager"]
    if q.device.type != "cpu":
        return ["triton", "sdpa", "eager"]
    seq_len = q.size(1) if padding is None else padding.seq_len
    is_short = q.size(-2) * seq_len**2 < FEW_SCORES
    is_bias_trained = training and attn_bias is not None and attn_bias.needs_grad
    if dropout and not HAS_NUMPY:
        return ["eager"]
    if attn_bias is not None and attn_bias.layout is not None:
        return ["chunked", "eager"]
    if dropout or is_bias_trained:  # torch's fused attention on the CPU serves neither
        return ["eager"] if is_short else ["chunked", "eager"]
    return ["eager"] if is_short and padding is not None else ["sdpa", "chunked", "eager"]


@functools.lru_cache(maxsize=None)
def _log(name, device, dtype, training, passed_over) -> None:
    mode = "with gradient" if training else "without gradient"
    because = "".join(f"; not {reason}" for reason in passed_over)
    logger.info("attention on %s, %s, %s: %s%s", device, dtype, mode, name, because)
