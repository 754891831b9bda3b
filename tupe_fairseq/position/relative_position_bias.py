"""The T5-bucketed relative bias of TUPE-R."""

import math
from typing import Optional, Tuple

import torch
from torch import Tensor, nn

from tupe_fairseq.position.known_schemes import MAX_DISTANCE, NUM_BUCKETS
from tupe_fairseq.position.positions import Positions, as_length, relative_positions
from tupe_fairseq.position.reset_cls import untie_cls


def relative_position_bucket(
    relative_position: Tensor, num_buckets: int, max_distance: int, *, causal: bool = False
) -> Tensor:
    """Map signed distances to buckets: exact near zero, logarithmic further out.

    With half = num_buckets / 2, exact = half // 2 and n = |relative_position|:
    bucket = (half if relative_position > 0 else 0)
             + (n if n < exact else min(half - 1, exact + floor(
                log(n / exact) / log(max_distance / exact) * (half - exact)))).
    With ``causal`` all buckets are for keys before the query (half = num_buckets, no offset), and
    every later key falls into bucket 0.
    The scheme of T5 (Raffel et al. 2020, section 2.1,
    https://arxiv.org/abs/1910.10683), in float32 like the authors' code: in another precision a
    distance on the edge of a bucket can fall into the next one.

    Args:
        relative_position (Tensor): integers, key position minus query position.
        num_buckets (int): number of buckets over both directions; even, at least 4.
        max_distance (int): from this distance on there is one bucket per direction.
        causal (bool): T5's decoder: one direction only.
    Shape:
        any -> the same, int64.
    Raises:
        ValueError: if ``num_buckets`` is odd or less than 4.
        ValueError: if ``max_distance`` is not above the exact range, num_buckets // 4 (causal:
            num_buckets // 2).
    """
    exact = _exact_range(num_buckets, max_distance, causal)
    half = num_buckets if causal else num_buckets // 2
    distance = (-relative_position).clamp(min=0) if causal else relative_position.abs()
    # clamp: log(0) would be -inf, and the near branch wins there anyway
    ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    far = (exact + (ratio * (half - exact)).long()).clamp(max=half - 1)
    near_or_far = torch.where(distance < exact, distance, far)
    return near_or_far if causal else near_or_far + (relative_position > 0).long() * half


def _exact_range(num_buckets: int, max_distance: int, causal: bool) -> int:
    """The distance from which buckets are logarithmic, of good sizes."""
    if num_buckets < 4 or num_buckets % 2:
        raise ValueError(
            f"rel_pos_buckets ({num_buckets}) must be even and at least 4; change --rel-pos-buckets"
        )
    exact = (num_buckets if causal else num_buckets // 2) // 2
    if max_distance <= exact:
        raise ValueError(
            f"max_rel_pos ({max_distance}) must be above the range of exact buckets ({exact}, "
            f"from rel_pos_buckets {num_buckets}); raise --max-rel-pos or lower --rel-pos-buckets"
        )
    return exact


class RelativePositionBias(nn.Module):
    """One learned scalar per head and bucket of the distance from query to key.

    R[h, i, j] = table[bucket(p_j - p_i), h] for positions p, then [CLS] untied.
    Source: Ke, He and Liu 2021, the b term of Eq. (8) with Eq. (9),
    https://arxiv.org/abs/2006.15595.

    The table has num_buckets + 1 rows.  The untied [CLS] takes two of them: the extra row
    (others look at [CLS]) and row num_buckets / 2, which no distance falls into ([CLS] looks at
    others), or a second extra row with ``causal``, where distances fill all others.  Eq. (11) of
    the paper resets the sum of A and R once; the authors' code, and this one, reset each on its
    own.

    Args:
        num_heads (int): number of heads, H.
        num_buckets (int): see :func:`relative_position_bucket`.
        max_distance (int): see :func:`relative_position_bucket`.
        untie_cls (bool): give [CLS] scores of its own; otherwise its two rows are unused.
        causal (bool): T5's decoder: buckets for keys before the query only.
    Shape:
        see :meth:`PositionEncoding.position_bias`.
    Dtype and device: those of the table, but at least float32.
    Raises:
        ValueError: as :func:`relative_position_bucket`.
    """

    def __init__(
        self,
        num_heads: int,
        num_buckets: int = NUM_BUCKETS,
        max_distance: int = MAX_DISTANCE,
        *,
        untie_cls: bool = True,
        causal: bool = False,
    ):
        super().__init__()
        _exact_range(num_buckets, max_distance, causal)
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.unties_cls = untie_cls
        # Computed once, on the CPU, so that no device's logarithm decides a bucket; distances
        # beyond max_distance share the last one.  No buffer: it stays what it is when a module is
        # built on the meta device and gets its state later.
        distances = torch.arange(-max_distance, max_distance + 1, device="cpu")
        self.buckets = relative_position_bucket(distances, num_buckets, max_distance, causal=causal)
        self.causal = causal
        self.relative_attention_bias = nn.Embedding(num_buckets + (2 if causal else 1), num_heads)
        self.reset_parameters()

    @property
    def cls_to_other_row(self) -> int:
        return self.num_buckets + 1 if self.causal else self.num_buckets // 2

    @property
    def other_to_cls_row(self) -> int:
        return self.num_buckets

    def reset_parameters(self) -> None:
        """BERT's initialisation: N(0, 0.02)."""
        nn.init.normal_(self.relative_attention_bias.weight, std=0.02)

    def forward(self, positions_q: Positions, positions_k: Optional[Positions] = None) -> Tensor:
        if positions_k is None:
            positions_k = positions_q
        num_queries, num_keys = as_length(positions_q), as_length(positions_k)
        # one that export leaves open is no int
        if isinstance(num_queries, int) and num_queries == num_keys:
            bias = self._of_length(num_queries)
        else:
            table = self._table()
            relative = relative_positions(positions_q, positions_k, table.device)
            # (B x) Tq x Tk x H -> (B x) H x Tq x Tk
            bias = table[self._bucket(relative)].movedim(-1, -3)
        if not self.unties_cls:
            return bias
        return untie_cls(bias, *self.of_cls(), positions_q, positions_k)

    def by_distance(self, seq_len: int) -> Tensor:
        """The scores of the distances 1 - seq_len .. seq_len - 1, [CLS] tied: (H, 2 L - 1)."""
        table = self._table()
        offsets = torch.arange(1 - seq_len, seq_len, device=table.device)
        return table[self._bucket(offsets)].t()

    def of_cls(self) -> Tuple[Tensor, Tensor]:
        """The scores of [CLS] looking at others, and of others looking at it: (H) each."""
        table = self._table()
        return table[self.cls_to_other_row], table[self.other_to_cls_row]

    def _table(self) -> Tensor:
        table = self.relative_attention_bias.weight
        return table.to(torch.promote_types(table.dtype, torch.float32))

    def _bucket(self, relative_position: Tensor) -> Tensor:
        clamped = relative_position.clamp(-self.max_distance, self.max_distance)
        # not blocking: waiting for a device at every step would cost more than these few numbers
        buckets = self.buckets.to(relative_position.device, non_blocking=True)
        return buckets[clamped + self.max_distance]

    def _of_length(self, seq_len: int) -> Tensor:
        # H x (2L - 1) -> H x L x L: window s holds the offsets from s - (L - 1) on, which is the
        # row of query L - 1 - s
        return self.by_distance(seq_len).unfold(1, seq_len, 1).flip(1)
