"""Blocks of scores that hold a number for each distance, and the sums of their diagonals."""

from typing import Optional, Tuple

import torch
from torch import Tensor


class DistanceBlocks:
    """bias[h, i, j] = by_distance[h, j - i + L - 1], for blocks of queries and keys.

    Queries count from the last one of their sequence to the first: then a distance is the sum of
    two counts, and a block of them is the vector itself, each row read from one place further on.
    A block's diagonals, whose sums are the gradient, lie below each other once its rows are read as
    if they were one shorter.

    Args:
        by_distance (Tensor): the numbers.
        grad (Tensor, optional): what :meth:`gather` adds to.
        spares_first (bool): leave out the first query and the first key.
    Shape:
        by_distance, grad (H, 2 L - 1).
    """

    def __init__(self, by_distance: Tensor, grad: Optional[Tensor], spares_first: bool):
        self._values = by_distance.contiguous()
        self._grad = grad
        self._spares_first = spares_first
        self._buffer = by_distance.new_empty(0)
        self._shape: Tuple[int, ...] = ()

    def fill(self, scores: Tensor, heads: slice, first: Tuple[int, int], length: int) -> None:
        """scores = bias.

        Args:
            scores (Tensor): the block.
            first (pair): its first query, counted from the last one, and its first key.
            length (int): that of the sequence.
        Shape:
            scores heads x queries x keys.
        """
        values = self._values[heads]
        start = values.storage_offset() + self._start(first, length)
        strides = (values.stride(0), 1, 1)
        scores.copy_(values.as_strided(scores.shape, strides, start))
        self._spare(scores, first, length)

    def grad_block(self, shape: torch.Size) -> Tensor:
        """A block for a gradient that :meth:`gather` shall read, with zeros behind its rows."""
        num_heads, num_queries, num_keys = shape
        row = num_keys + num_queries
        if self._shape != tuple(shape):
            self._shape = tuple(shape)
            self._buffer = self._values.new_zeros(num_heads * num_queries * row)
        return self._buffer.as_strided(shape, (num_queries * row, row, 1))

    def gather(self, block: Tensor, heads: slice, first: Tuple[int, int], length: int) -> None:
        """Add the sums of the diagonals of what is in the ``grad_block``, and write over it."""
        assert self._grad is not None
        self._spare(block, first, length)
        num_heads, num_queries, num_keys = block.shape
        row = num_keys + num_queries
        shape = (num_heads, num_queries, row - 1)
        diagonals = self._buffer.as_strided(shape, (num_queries * row, row - 1, 1))
        start = self._start(first, length)
        self._grad[heads, start : start + row - 1] += diagonals.sum(dim=1)

    def _start(self, first: Tuple[int, int], length: int) -> int:
        # the whole batch may be longer than the sequence
        return first[0] + first[1] + (self._values.size(1) + 1) // 2 - length

    def _spare(self, block: Tensor, first: Tuple[int, int], length: int) -> None:
        if self._spares_first:
            if first[1] == 0:
                block[:, :, 0] = 0
            if first[0] + block.size(1) == length:
                block[:, -1] = 0
