"""The gradient of a bias in factors, from that of the whole one, strip by strip."""

import math

import torch
from torch import Tensor

from tupe_fairseq.attention.bias import Bias

# Numbers of a strip, at most, unless it has the fewest rows; as many zeros may lie between these.
NUMBERS = 2**26
# Its rows are a multiple of so many, as tiles of the kernel that writes it are as high or lower.
ROWS = 64


class Strips:
    """Sums up what each strip, some rows of the whole gradient, gives to the factors.

    Whoever has the gradient writes it to :meth:`strip` and calls :meth:`gather`, for
    ``range(0, L, strips.rows)``.  The order of all sums is fixed, and memory bounded.

    A row is followed by as many zeros as there are rows, and so is what comes before the first:
    read as if each row were one longer, they have their diagonals, one for each distance, below
    each other.

    Args:
        bias (Bias): in factors.
        dtype (torch.dtype): of a strip and of the factors that it is multiplied by; sums are in
            that of the bias.
    """

    def __init__(self, bias: Bias, dtype: torch.dtype):
        num_heads, self._length, _ = bias.shape
        assert bias.layout is not None
        self._spares_first = bias.layout.spares_first
        rows = max(NUMBERS // max(num_heads * self._length, 1) // ROWS, 1)
        self.rows = min(rows, math.ceil(self._length / ROWS)) * ROWS
        self._row = self._length + self.rows
        size = num_heads, self.rows + self.rows * self._row
        self._buffer = bias.values.new_zeros(size, dtype=dtype)
        #: of ``bias.values``
        self.grad = torch.zeros_like(bias.values)
        self._grads = bias.parts(self.grad)
        # H x F x L, in rows that begin as products like them
        queries, keys, _ = bias.parts()
        self._queries = None if queries is None else queries.mT.to(dtype).contiguous()
        self._keys = None if keys is None else keys.to(dtype)

    def strip(self, first: int) -> Tensor:
        """The rows from ``first`` on, to be written: H x rows x L; at the end there are fewer."""
        shape = self._buffer.size(0), min(self.rows, self._length - first), self._length
        return self._buffer.as_strided(shape, (self._buffer.stride(0), self._row, 1), self.rows)

    def gather(self, first: int) -> None:
        """Add what the strip gives; it is of no use afterwards."""
        strip, grads = self.strip(first), self._grads
        if grads.queries is not None and grads.keys is not None:
            assert self._queries is not None and self._keys is not None
            rows = slice(first, first + strip.size(1))
            with torch.autocast(strip.device.type, enabled=False):
                grads.queries[:, rows] = torch.bmm(self._keys, strip.mT).mT
                grads.keys.add_(torch.bmm(self._queries[:, :, rows], strip))
        if grads.by_distance is not None:
            self._gather_distances(strip, first, grads.by_distance)

    def _gather_distances(self, strip: Tensor, first: int, grad: Tensor) -> None:
        num_heads, num_rows, length = strip.shape
        if self._spares_first:
            strip[:, :, 0] = 0
            if first == 0:
                strip[:, 0] = 0
        # the first one is that of the last row and the first key
        num_diagonals, start = num_rows + length - 1, length - num_rows - first
        shape = num_heads, num_rows, num_diagonals
        strides = self._buffer.stride(0), self._row + 1, 1
        diagonals = self._buffer.as_strided(shape, strides, self.rows - (num_rows - 1))
        grad[:, start : start + num_diagonals].add_(diagonals.sum(dim=1, dtype=grad.dtype))
