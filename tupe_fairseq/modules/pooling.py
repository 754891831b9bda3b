"""One vector for each sequence: the mean of its tokens, or the first one."""

from typing import Callable, Dict

import torch
from torch import Tensor

#: hidden states (B, L, D) and which tokens are real, bool (B, L) -> (B, D)
Pooling = Callable[[Tensor, Tensor], Tensor]


def _mean_of_tokens(hidden: Tensor, real: Tensor) -> Tensor:
    """The mean of all tokens, ``<s>`` and ``</s>`` among them, as sentence-transformers has it."""
    # half precision would overflow in long sums, and not hold their numbers of tokens
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    # what stands at padding is finite and undefined
    weights = real.unsqueeze(-1).to(dtype)
    return (hidden.to(dtype) * weights).sum(dim=1) / weights.sum(dim=1)


def _first_token(hidden: Tensor, real: Tensor) -> Tensor:
    return hidden[:, 0]


#: by the names that --pooling may have
POOLINGS: Dict[str, Pooling] = {"mean": _mean_of_tokens, "cls": _first_token}


def get_pooling(name: str) -> Pooling:
    """What makes one vector of the hidden states of each sequence.

    Shape:
        hidden states (B, L, D), which tokens are real, bool (B, L) -> (B, D).
    Dtype: of ``mean`` at least float32, of ``cls`` that of the hidden states.
    Raises:
        ValueError: if there is none of this name; the message lists the known ones.
    """
    if name not in POOLINGS:
        raise ValueError(
            f"unknown pooling {name!r}; --pooling is one of {', '.join(sorted(POOLINGS))}"
        )
    return POOLINGS[name]
