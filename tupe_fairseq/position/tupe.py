"""TUPE: untied absolute positions (TUPE-A), and with T5's bias TUPE-R."""

import torch
from torch import Tensor, nn

from tupe_fairseq.initialization import Embedding, Linear
from tupe_fairseq.options import MAX_DISTANCE, NUM_BUCKETS
from tupe_fairseq.position.base import PositionEncoding
from tupe_fairseq.position.positions import Positions, as_tensor, table_rows
from tupe_fairseq.position.t5_bias import T5_OPTIONS, WithRelativeBias, untie_cls


class ProjectedTable(nn.Module):
    """A learned table of positions with its own query and key projections (a mixin).

        LN(p) U_Q + b_Q and LN(p) U_K + b_K for each head    the factors of Ke et al. 2021, Eq. 7

    The LayerNorm and the biases are from the authors' code.
    """

    def make_projected_table(self, num_rows: int, embed_dim: int) -> None:
        self.pos = Embedding(num_rows, embed_dim)
        self.pos_ln = nn.LayerNorm(embed_dim)
        self.pos_q_proj = Linear(embed_dim, embed_dim)
        self.pos_k_proj = Linear(embed_dim, embed_dim)

    def project(self, num_rows: int) -> tuple[Tensor, Tensor]:
        """Queries and keys of the first rows: (H, num_rows, K) each."""
        x = self.pos_ln(self.pos.weight[:num_rows])
        q, k = (
            proj(x).unflatten(-1, (self.num_heads, -1)).transpose(0, 1)
            for proj in (self.pos_q_proj, self.pos_k_proj)
        )
        return q, k


def rows_at(projected: Tensor, positions: Positions) -> Tensor:
    """Select rows: (H, rows, K) -> (H, T, K), or (B, H, T, K) for positions (B, T)."""
    if isinstance(positions, range):
        return projected[:, positions.start : positions.stop]
    if not isinstance(positions, Tensor) or positions.dim() == 0:
        return projected[:, :positions]
    return projected[:, as_tensor(positions, projected.device)].movedim(0, -3)


class UntiedAbsoluteBias(ProjectedTable, PositionEncoding):
    """Untied absolute position scores, the A of TUPE.

        A[h, i, j] = scaling * (p_i U_Q^h) . (p_j U_K^h), then [CLS] untied
        Ke et al. 2021, Eq. 7, second term, and Eq. 9, https://arxiv.org/abs/2006.15595

    Position t is row t + 1 of the table. As in the authors' code, each of the two scores of the
    untied [CLS] is the score of a row with itself: row 0 if [CLS] looks at others, row 1 if others
    look at [CLS]. With a tied [CLS], row 1 is only the row of position 0, and row 0 is unused.

    Shape: see ``PositionEncoding.bias``.
    """

    correlations = 2

    def __init__(
        self, embed_dim: int, num_heads: int, max_positions: int, *, untie_cls: bool = True
    ):
        super().__init__(embed_dim, num_heads, max_positions)
        self.unties_cls = untie_cls
        self.make_projected_table(max_positions + 1, embed_dim)

    def bias(self, positions_q: Positions, positions_k: Positions) -> Tensor:
        rows = max(table_rows(p, self.max_positions) for p in (positions_q, positions_k))
        q, k = self.project(rows + 1)
        rows_q, rows_k = rows_at(q[:, 1:], positions_q), rows_at(k[:, 1:], positions_k)
        bias = self.scaling * torch.matmul(rows_q, rows_k.transpose(-2, -1))
        if not self.unties_cls:
            return bias
        cls_to_other, other_to_cls = (self.scaling * (q[:, r] * k[:, r]).sum(-1) for r in (0, 1))
        return untie_cls(bias, cls_to_other, other_to_cls, positions_q, positions_k)


class TupePositionBias(WithRelativeBias):
    """The position scores that all layers and all sequences of a batch share.

        TUPE-A: A        TUPE-R (``rel_pos``): A + R        scaling = 1 / sqrt(2 K)
        Ke et al. 2021, Eqs. 10 and 11, https://arxiv.org/abs/2006.15595

    A is :class:`UntiedAbsoluteBias`, R is ``RelativePositionBias``. The 2 keeps the variance of the
    logits, which are now a sum of two correlations, one of words and one of positions.

    For its options see ``PositionOptions``.

    Shape: n tokens -> (H, n, n), float32; positions (B, T) -> (B, H, T, T); rows are queries.
    """

    takes = {**T5_OPTIONS, "tie_cls": False}
    correlations = UntiedAbsoluteBias.correlations
    TABLE = "untied_absolute.pos.weight"
    table_begins = 1

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        rel_pos: bool = False,
        rel_pos_buckets: int = NUM_BUCKETS,
        max_rel_pos: int = MAX_DISTANCE,
        tie_cls: bool = False,
        causal: bool = False,
    ):
        untie = not tie_cls
        super().__init__(
            embed_dim,
            num_heads,
            max_positions,
            rel_pos=rel_pos,
            rel_pos_buckets=rel_pos_buckets,
            max_rel_pos=max_rel_pos,
            untie_cls=untie,
            causal=causal,
        )
        sizes = embed_dim, num_heads, max_positions
        self.untied_absolute = UntiedAbsoluteBias(*sizes, untie_cls=untie)
        self.cls_row_is_constant = untie

    def bias(self, positions_q: Positions, positions_k: Positions) -> Tensor:
        absolute = self.untied_absolute(positions_q, positions_k)
        relative = super().bias(positions_q, positions_k)
        return absolute if relative is None else absolute + relative
