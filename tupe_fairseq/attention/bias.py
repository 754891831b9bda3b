"""The bias of the scores: whole, or in factors from which a kernel makes what it needs."""

from typing import Callable, Dict, Hashable, NamedTuple, Optional

import torch
from torch import Tensor

from tupe_fairseq.attention.padding import Padding
from tupe_fairseq.attention.recorded import is_recorded
from tupe_fairseq.attention.shifted import shifted


class Layout(NamedTuple):
    """Where the parts of a bias in factors lie in the one tensor that holds them.

    Args:
        length (int): queries, and keys, L.
        width (int): columns of their factors, F; 0 if there are none.
        has_distances (bool): whether there is a number for each distance.
        spares_first (bool): whether these are left out of the first row and column.
    """

    length: int
    width: int
    has_distances: bool
    spares_first: bool


class Parts(NamedTuple):
    """The parts of a bias in factors, views of one tensor.

    bias[h, i, j] = queries[h, i] . keys[h, :, j] + by_distance[h, j - i + L - 1]

    Shape:
        queries (H, L, F), keys (H, F, L), by_distance (H, 2 L - 1); None for nothing.
    """

    queries: Optional[Tensor]
    keys: Optional[Tensor]
    by_distance: Optional[Tensor]


class Bias:
    """Numbers that are added to the scores, the same for all layers.

    Whole, they are a tensor that broadcasts to (B, H, L, L).  In factors they are one for the
    batch, and nothing of size L x L exists until a kernel makes a tile of it, or somebody asks for
    :meth:`whole`.  Either way all of them, and their gradient, are one tensor, ``values``:
    a wrapper that computes a layer again for its gradient detaches the tensors that it is called
    with, and finds none inside of another object.

    Args:
        values (Tensor): the bias, (B, H, L, L) in any way that broadcasts to it, or (H, M) with the
            M numbers of all parts in a row, as :meth:`of_factors` puts them together.
        layout (Layout, optional): how they lie there; None for a whole bias.
    Dtype: float32 at least.
    """

    def __init__(self, values: Tensor, layout: Optional[Layout] = None):
        self.values = values
        self.layout = layout
        # without gradient, so that whoever made them first, everybody may use them
        self._copies: Dict[Hashable, Tensor] = {}

    @classmethod
    def of_factors(
        cls,
        queries: Optional[Tensor],
        keys: Optional[Tensor],
        by_distance: Optional[Tensor],
        spares_first: bool = False,
    ) -> "Bias":
        """bias[h, i, j] = queries[h, i] . keys[h, j] + by_distance[h, j - i + L - 1].

        Args:
            spares_first (bool): leave ``by_distance`` out of the first row and column.
        Shape:
            queries, keys (H, L, F), by_distance (H, 2 L - 1); None for nothing, but not all three.
        """
        rows, length, width = [], 0, 0
        if by_distance is not None:
            length = (by_distance.size(1) + 1) // 2
            rows.append(by_distance)
        if queries is not None and keys is not None:
            length, width = queries.shape[1:]
            rows += [queries.flatten(1), keys.transpose(1, 2).flatten(1)]
        layout = Layout(length, width, by_distance is not None, spares_first)
        return cls(torch.cat(rows, dim=1), layout)

    @property
    def shape(self) -> torch.Size:
        """Of the whole bias."""
        if self.layout is None:
            return self.values.shape
        return torch.Size((self.values.size(0), self.layout.length, self.layout.length))

    @property
    def needs_grad(self) -> bool:
        return self.values.requires_grad and torch.is_grad_enabled()

    @property
    def num_bytes(self) -> int:
        tensors = (self.values, *self._copies.values())
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def holding(self, values: Optional[Tensor]) -> "Bias":
        """This bias with ``values`` in place of its own: the same numbers, of another graph."""
        if values is None or values is self.values:
            return self
        other = Bias(values, self.layout)
        if values.data_ptr() == self.values.data_ptr():
            other._copies = self._copies
        return other

    def parts(self, values: Optional[Tensor] = None) -> Parts:
        """The parts of ``values``, its own if None, such as its gradient; for one in factors."""
        layout, values = self.layout, self.values if values is None else values
        assert layout is not None
        num_heads, start = values.size(0), 0
        queries = keys = by_distance = None
        if layout.has_distances:
            start = 2 * layout.length - 1
            by_distance = values[:, :start]
        if layout.width:
            end = start + layout.length * layout.width
            queries = values[:, start:end].view(num_heads, layout.length, layout.width)
            keys = values[:, end:].view(num_heads, layout.width, layout.length)
        return Parts(queries, keys, by_distance)

    def whole(self) -> Tensor:
        """The bias as it is added: ``values``, or (H, L, L) made of its factors."""
        if self.layout is None:
            return self.values
        queries, keys, by_distance = self.parts()
        bias = None
        if by_distance is not None:
            # window s holds the distances from s - (L - 1) on, which is the row of query L - 1 - s
            bias = by_distance.unfold(1, self.layout.length, 1).flip(1)
            if self.layout.spares_first:
                rows = torch.arange(self.layout.length, device=bias.device)
                bias = bias.masked_fill((rows == 0) | (rows == 0)[:, None], 0)
        if queries is None or keys is None:
            assert bias is not None
            return bias
        with torch.autocast(queries.device.type, enabled=False):
            product = torch.matmul(queries, keys)
        return product if bias is None else product + bias

    def of_first(self, length: int) -> "Bias":
        """The bias of sequences of at most ``length`` tokens."""
        if length == self.shape[-1]:
            return self
        return Bias(self.whole()[..., :length, :length])

    def copy_in(self, dtype: torch.dtype) -> Tensor:
        """:func:`shifted` of the whole bias, without gradient; made once for each dtype."""
        found = self._copies.get(dtype)
        if found is None:
            whole = self.whole().detach()
            found = whole if dtype == whole.dtype else shifted(whole, dtype)
            if self.layout is not None or found is not whole:
                self._copies[dtype] = found
        return found

    def once(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """What ``make`` gives, without gradient: made once for all layers."""
        if key not in self._copies:
            with torch.no_grad():
                self._copies[key] = make()
        return self._copies[key]

    def corner(self, dtype: torch.dtype, length: int) -> Tensor:
        """The bias of a sequence of ``length`` tokens, in the dtype that a kernel computes in.

        Each length has its own copy in 16 bits: the maximum of a row of the whole batch may stand
        at a key that this sequence has not.

        Shape:
            (..., length, length).
        """
        if not self.needs_grad and length == self.shape[-1]:
            return self.copy_in(dtype)
        corner = self.whole()[..., :length, :length]
        return shifted(corner, dtype) if length else corner.to(dtype)


def shared_bias_refusal(
    q: Tensor, attn_bias: Optional[Bias], padding: Optional[Padding]
) -> Optional[str]:
    """Why a request does not fit one bias for the whole batch and padding at the end, or None.

    The reason has no sizes: they are logged once for each reason, and every batch has its own.
    """
    if is_recorded():
        return "it computes by the sizes of each batch, which torch.jit.trace and export would fix"
    if padding is not None and padding.lengths is None:
        return "it needs all padding at the end of the sequences"
    seq_len = q.size(1) if padding is None else padding.seq_len
    expected = (q.size(-2), seq_len, seq_len)
    if attn_bias is not None and attn_bias.shape != expected:
        return "it needs one attn_bias for the whole batch, of the shape (H, L, L)"
    return None
