"""T5's bucketed relative bias, the R of TUPE-R, and the untied [CLS]."""

import math

import torch
from torch import Tensor, nn

from tupe_fairseq.initialization import Embedding
from tupe_fairseq.options import MAX_DISTANCE, NUM_BUCKETS
from tupe_fairseq.position.base import PositionEncoding
from tupe_fairseq.position.positions import Positions, is_at_cls, relative_positions

T5_OPTIONS = {"rel_pos": False, "rel_pos_buckets": NUM_BUCKETS, "max_rel_pos": MAX_DISTANCE}


def untie_cls(
    bias: Tensor,
    cls_to_other: Tensor,
    other_to_cls: Tensor,
    positions_q: Positions,
    positions_k: Positions,
) -> Tensor:
    """Give [CLS] its own position scores.

        reset(v, i, j) = cls_to_other  if i is [CLS]                 theta_1
                         other_to_cls  if j is [CLS] and i is not    theta_2
                         v[i, j]       otherwise
        Ke et al. 2021, Eq. 9, https://arxiv.org/abs/2006.15595

    Shape: bias (H, Tq, Tk) or (B, H, Tq, Tk), the two scores (H) -> as bias.
    """
    row_is_cls = is_at_cls(positions_q, bias.device).unsqueeze(-2).unsqueeze(-1)
    column_is_cls = is_at_cls(positions_k, bias.device).unsqueeze(-2).unsqueeze(-2)
    bias = torch.where(column_is_cls, other_to_cls[:, None, None], bias)
    return torch.where(row_is_cls, cls_to_other[:, None, None], bias)


def relative_position_bucket(
    relative_position: Tensor, num_buckets: int, max_distance: int, *, causal: bool = False
) -> Tensor:
    """T5's buckets of distances: exact near zero, logarithmic further out.

        n = |distance|, half = num_buckets / 2, exact = half // 2
        bucket = (half if distance > 0 else 0) + (n if n < exact else min(half - 1,
                 exact + floor(log(n / exact) / log(max_distance / exact) * (half - exact))))
        Raffel et al. 2020, section 2.1, https://arxiv.org/abs/1910.10683

    With ``causal`` all buckets are for keys before the query (half = num_buckets), and later keys
    fall into bucket 0. Computed in float32, as in the authors' code: in another precision, a
    distance at the edge of a bucket could fall into the next one.

    Shape: any -> the same, int64.
    """
    if num_buckets < 4 or num_buckets % 2:
        raise ValueError(f"rel_pos_buckets ({num_buckets}) must be even and at least 4")
    half = num_buckets if causal else num_buckets // 2
    exact = half // 2
    if max_distance <= exact:
        raise ValueError(
            f"max_rel_pos ({max_distance}) must be above the range of exact buckets ({exact}); "
            "raise it, or lower rel_pos_buckets"
        )
    n = (-relative_position).clamp(min=0) if causal else relative_position.abs()
    log = torch.log(n.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    far = (exact + (log * (half - exact)).long()).clamp(max=half - 1)
    bucket = torch.where(n < exact, n, far)
    return bucket if causal else bucket + (relative_position > 0).long() * half


class RelativePositionBias(nn.Module):
    """A learned scalar for each head and bucket of the distance.

        R[h, i, j] = table[bucket(p_j - p_i), h], then [CLS] untied
        Ke et al. 2021, the b term of Eq. 8, and Eq. 9, https://arxiv.org/abs/2006.15595

    The table has num_buckets + 1 rows. Two are for the untied [CLS]: the last row (others look at
    [CLS]), and row num_buckets / 2, which no distance uses ([CLS] looks at others). With ``causal``
    distances do use that row, so there is one more. The paper resets the sum A + R once; the
    authors' code, and this one, reset A and R separately.

    Shape: see ``PositionEncoding.bias``.
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
        self.max_distance = max_distance
        self.unties_cls = untie_cls
        # Computed once on the CPU, so that buckets do not depend on a device's logarithm. Not a
        # buffer: see PositionEncoding.unit.
        distances = torch.arange(-max_distance, max_distance + 1, device="cpu")
        self.buckets = relative_position_bucket(distances, num_buckets, max_distance, causal=causal)
        self.cls_to_other_row = num_buckets + 1 if causal else num_buckets // 2
        self.other_to_cls_row = num_buckets
        self.relative_attention_bias = Embedding(num_buckets + (2 if causal else 1), num_heads)

    def forward(self, positions_q: Positions, positions_k: Positions | None = None) -> Tensor:
        positions_k = positions_q if positions_k is None else positions_k
        table = self.relative_attention_bias.weight
        n = positions_q
        if isinstance(n, int) and isinstance(positions_k, int) and n == positions_k:
            # Look up 2n - 1 distances, not n * n pairs. Window s has the distances from
            # s - (n - 1) on, which is the row of query n - 1 - s.
            by_distance = table[self._bucket(torch.arange(1 - n, n, device=table.device))].t()
            bias = by_distance.unfold(1, n, 1).flip(1)
        else:
            distance = relative_positions(positions_q, positions_k, table.device)
            bias = table[self._bucket(distance)].movedim(-1, -3)
        if not self.unties_cls:
            return bias
        to_other, to_cls = table[self.cls_to_other_row], table[self.other_to_cls_row]
        return untie_cls(bias, to_other, to_cls, positions_q, positions_k)

    def _bucket(self, distance: Tensor) -> Tensor:
        index = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return self.buckets.to(distance.device, non_blocking=True)[index]


class WithRelativeBias(PositionEncoding):
    """An encoding to which ``rel_pos`` adds T5's bias R, :class:`RelativePositionBias`.

    For its options see ``PositionOptions``; ``untie_cls`` gives [CLS] its own scores in R.
    """

    takes = {**T5_OPTIONS, "untie_cls": False}
    need_rel_pos = ("rel_pos_buckets", "max_rel_pos", "untie_cls")

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        rel_pos: bool = False,
        rel_pos_buckets: int = NUM_BUCKETS,
        max_rel_pos: int = MAX_DISTANCE,
        untie_cls: bool = False,
        causal: bool = False,
    ):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        if rel_pos:
            self.relative = RelativePositionBias(
                num_heads, rel_pos_buckets, max_rel_pos, untie_cls=untie_cls, causal=causal
            )
            self.cls_row_is_constant = untie_cls
        self.make_table()

    def make_table(self) -> None:
        """Create the parameters of a subclass, after those of the bias."""

    def bias(self, positions_q: Positions, positions_k: Positions) -> Tensor | None:
        return None if self.relative is None else self.relative(positions_q, positions_k)
