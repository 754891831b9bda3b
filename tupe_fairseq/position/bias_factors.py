"""A bias in factors: what a term of positions alone is made of, without its T x T scores."""

from typing import NamedTuple, Optional

from torch import Tensor


class BiasFactors(NamedTuple):
    """The parts of a bias of the positions 0 .. T - 1, whose memory grows with T alone.

    bias[h, i, j] = queries[h, i] . keys[h, j] + by_distance[h, j - i + T - 1], where the second
    term is left out of the first row and column with ``spares_first``.

    Args:
        queries, keys (Tensor, optional): None for zeros.
        by_distance (Tensor, optional): None for zeros; its entry T - 1 is the distance 0.
        spares_first (bool): whether ``by_distance`` leaves the first row and column alone.
    Shape:
        queries, keys (H, T, F) for any F; by_distance (H, 2 T - 1).
    Dtype and device: all the same, at least float32.
    """

    queries: Optional[Tensor]
    keys: Optional[Tensor]
    by_distance: Optional[Tensor]
    spares_first: bool = False
