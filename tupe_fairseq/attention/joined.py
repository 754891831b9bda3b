"""Short sequences that follow each other share a call of torch's fused attention."""

from typing import Callable, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

# A call for fewer tokens takes longer to begin than to compute.
JOINED_TOKENS = 64

# The bias of a sequence of so many tokens, (H, M, M), in the dtype of q; None if there is none.
Corner = Callable[[int], Optional[Tensor]]


class Call(NamedTuple):
    """Tokens in a row that attend to each other.

    Args:
        start (int): the first of them.
        length (int): their number, M.
        mask (Tensor, optional): added to their scores; (H, M, M) or (1, M, M).
    """

    start: int
    length: int
    mask: Optional[Tensor]


def one_by_one(spans: List[Tuple[int, int]], corner: Corner) -> List[Call]:
    """A call for each sequence, under its corner of the one bias.

    Args:
        spans (list): first token and length of each sequence.
        corner (callable): asked once for each length.
    """
    corners = {length: corner(length) for length in {length for _, length in spans}}
    return [Call(start, length, corners[length]) for start, length in spans]


def joined(spans: List[Tuple[int, int]], corner: Corner, q: Tensor) -> List[Call]:
    """As :func:`one_by_one`, but as many sequences a call as have ``JOINED_TOKENS`` together.

    A mask keeps them apart: each has its corner of the bias, and to tokens of another it adds half
    the lowest number, so that their weight is exactly 0.

    Args:
        spans (list): first token and length of each sequence, nothing between them.
        corner (callable): as for :func:`one_by_one`; the masks have no gradient.
        q (Tensor): any, of the dtype and device that the masks are to have.
    """
    calls = []
    for group in _groups(spans):
        if len(group) == 1:
            calls += one_by_one(group, corner)
            continue
        first = group[0][0]
        size = sum(length for _, length in group)
        biases = [corner(length) for _, length in group]
        num_heads = 1 if biases[0] is None else biases[0].size(0)
        mask = q.new_full((num_heads, size, size), torch.finfo(q.dtype).min / 2)
        for (start, length), bias in zip(group, biases):
            own = slice(start - first, start - first + length)
            mask[:, own, own] = 0.0 if bias is None else bias
        calls.append(Call(first, size, mask))
    return calls


def _groups(spans: List[Tuple[int, int]]) -> List[List[Tuple[int, int]]]:
    """The sequences in their order, of at most ``JOINED_TOKENS`` tokens together, or alone."""
    groups: List[List[Tuple[int, int]]] = []
    tokens = JOINED_TOKENS
    for start, length in spans:
        tokens += length
        if not groups or tokens > JOINED_TOKENS:
            groups.append([])
            tokens = length
        groups[-1].append((start, length))
    return groups


def is_one_batch(calls: List[Call], tokens: int) -> bool:
    """Whether all calls are of one length, under one mask, and leave out none of the tokens."""
    kinds = {(call.length, id(call.mask)) for call in calls}
    return len(kinds) == 1 and 0 < sum(call.length for call in calls) == tokens
