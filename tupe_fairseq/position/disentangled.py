"""Separate projections for words and positions, with all four correlations (BERT-A^d)."""

import torch
from torch import Tensor

from tupe_fairseq.position.positions import Positions, table_rows
from tupe_fairseq.position.t5_bias import WithRelativeBias
from tupe_fairseq.position.tupe import ProjectedTable, rows_at


class DisentangledPositions(ProjectedTable, WithRelativeBias):
    """TUPE's untied projections, with the word-position and position-word terms kept.

        logits = scaling * (q_i + U_Q p_i) . (k_j + U_K p_j) (+ R),   scaling = 1 / sqrt(4 K)
        Ke et al. 2021, section 4, BERT-A^d, https://arxiv.org/abs/2006.15595

    p_t is row t of the table. The projections are shared by all layers.
    """

    correlations = 4
    TABLE = "pos.weight"

    def make_table(self) -> None:
        self.cls_row_is_constant = False  # R is not the whole bias
        self.make_projected_table(self.max_positions, self.embed_dim)

    def bias(self, positions_q: Positions, positions_k: Positions) -> Tensor:
        q, k = self._at(positions_q, positions_k)
        bias = self.scaling * torch.matmul(q, k.transpose(-2, -1))
        relative = super().bias(positions_q, positions_k)
        return bias if relative is None else bias + relative

    def precompute(self, positions: Tensor, length: int) -> Tensor:
        """U_Q p and U_K p of all positions: (2, H, length, K)."""
        return torch.stack(self.in_full_precision(self._at, length, length))

    def content_bias(
        self,
        q: Tensor,
        k: Tensor,
        positions_q: Positions,
        positions_k: Positions,
        precomputed: Tensor | None = None,
    ) -> Tensor:
        at = positions_q, positions_k
        rows = self._at(*at) if precomputed is None else map(rows_at, precomputed, at)
        pos_q, pos_k = (x.to(q.dtype) for x in rows)
        return self.scaling * (q @ pos_k.transpose(-2, -1) + pos_q @ k.transpose(-2, -1))

    def _at(self, positions_q: Positions, positions_k: Positions) -> tuple[Tensor, Tensor]:
        """U_Q p of the queries' positions, U_K p of the keys': (H, T, K) or (B, H, T, K)."""
        rows = max(table_rows(p, self.max_positions) for p in (positions_q, positions_k))
        q, k = self.project(rows)
        return rows_at(q, positions_q), rows_at(k, positions_k)
