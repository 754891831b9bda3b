"""The untied absolute positional correlation of TUPE-A."""

from typing import Iterator, Optional, Tuple

import torch
from torch import Tensor, nn

from tupe_fairseq.position.encoding import head_dim_of
from tupe_fairseq.position.positions import Positions, table_rows
from tupe_fairseq.position.projected_table import ProjectedTable, rows_at, without_autocast
from tupe_fairseq.position.reset_cls import untie_cls

# Rows of the position table; position t is row t + 1.
CLS_TO_OTHER_ROW = 0
OTHER_TO_CLS_ROW = 1


class UntiedAbsoluteBias(ProjectedTable, nn.Module):
    """How much position i attends to position j, with projections of their own.

    A[h, i, j] = scaling * (p_i U_Q^h + b_Q^h) . (p_j U_K^h + b_K^h), then [CLS] untied.
    Source: Ke, He and Liu 2021, Eq. (7), second term, and Eq. (9),
    https://arxiv.org/abs/2006.15595.

    p_t is row t + 1 of a table of max_positions + 1 rows, layer-normalised.  As in the authors'
    code the projections have biases, and the two values of the untied [CLS] are the scores that
    a row of the table gives itself: row 0 for "[CLS] looks at others", row 1 for "others look at
    [CLS]".  Without ``untie_cls`` row 1 is simply position 0's and row 0 is unused.

    Args:
        embed_dim (int): width of a row of the table, D.
        num_heads (int): number of heads, H; divides ``embed_dim``.
        max_positions (int): the longest sequence, [CLS] included.
        scaling (float): factor on the scores; TUPE's is 1 / sqrt(2 * head_dim).
        untie_cls (bool): give [CLS] scores of its own; without it [CLS] is an ordinary position
            (the paper's ablation).
    Shape:
        see :meth:`PositionEncoding.position_bias`.
    Dtype and device: those of the parameters, but at least float32, also under autocast: a
        bias rounded to 16 bits would be added to the scores of every layer.
    Raises:
        ValueError: if ``num_heads`` does not divide ``embed_dim``.
        ValueError: if a position is not in the table.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        scaling: float,
        untie_cls: bool = True,
    ):
        super().__init__()
        head_dim_of(embed_dim, num_heads)
        self.num_heads = num_heads
        self.max_positions = max_positions
        self.scaling = scaling
        self.unties_cls = untie_cls
        self.make_table(max_positions + 1, embed_dim)

    def forward(self, positions_q: Positions, positions_k: Optional[Positions] = None) -> Tensor:
        if positions_k is None:
            positions_k = positions_q
        rows = max(table_rows(p, self.max_positions) for p in (positions_q, positions_k))
        q, k = self.project(rows + 1)
        # (B x) H x T x K; position t is row t + 1
        of_queries, of_keys = rows_at(q[:, 1:], positions_q), rows_at(k[:, 1:], positions_k)
        with without_autocast(q.device):
            bias = self.scaling * torch.matmul(of_queries, of_keys.transpose(-2, -1))
            if not self.unties_cls:
                return bias
            cls_to_other, other_to_cls = self._of_cls(q, k)
            return untie_cls(bias, cls_to_other, other_to_cls, positions_q, positions_k)

    def factors(self, seq_len: int) -> Tuple[Tensor, ...]:
        """What A is made of for the positions 0 .. seq_len - 1.

        Shape:
            queries and keys (H, L, K), [CLS] tied, and the two scores of the untied [CLS],
            cls_to_other and other_to_cls, (H) each; their products are scaled.
        """
        rows = table_rows(seq_len, self.max_positions) + 1
        q, k = self.project(rows)
        with without_autocast(q.device):
            return (self.scaling * q[:, 1:], k[:, 1:], *self._of_cls(q, k))

    def _of_cls(self, q: Tensor, k: Tensor) -> Iterator[Tensor]:
        rows = (CLS_TO_OTHER_ROW, OTHER_TO_CLS_ROW)
        return (self.scaling * (q[:, row] * k[:, row]).sum(dim=-1) for row in rows)
