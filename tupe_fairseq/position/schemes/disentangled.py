"""Separate projections for words and positions, with all four of their correlations."""

from typing import Optional, Tuple

import torch
from torch import Tensor

from tupe_fairseq.position.absolute import AbsoluteEncoding
from tupe_fairseq.position.bias_factors import BiasFactors
from tupe_fairseq.position.encoding import head_dim_of
from tupe_fairseq.position.positions import Positions, table_rows
from tupe_fairseq.position.projected_table import ProjectedTable, rows_at, without_autocast


class DisentangledPositions(ProjectedTable, AbsoluteEncoding):
    """TUPE's untied projections, with word-position and position-word terms kept.

    logits = scaling * (q_i + U_Q p_i) . (k_j + U_K p_j) (+ R with ``rel_pos``) for each head,
    scaling = 1 / sqrt(4 K), for the four terms of the product.
    Source: Ke, He and Liu 2021, section 4, the BERT-A^d, https://arxiv.org/abs/2006.15595; R is
    :class:`RelativePositionBias`.

    p_t is row t of a table, layer-normalised; U_Q and U_K have biases and are shared by all layers.
    All this is :class:`UntiedAbsoluteBias`'s, so that the mixed terms, and the scaling that four
    terms ask for, are the only difference from TUPE with a tied [CLS].  The bias of U_K changes
    no probability, as that of any attention's keys: it adds one value to all scores of a query.

    Args:
        embed_dim, num_heads, max_positions, causal: see :class:`PositionEncoding`.
        rel_pos, rel_pos_buckets, max_rel_pos, untie_cls: see :class:`AbsoluteEncoding`.
    Dtype and device: position_bias as in :class:`PositionEncoding`; content_bias those of q.
    Raises:
        ValueError: if a position is not in the table.
    """

    TABLE = "pos.weight"
    reads_content = True

    def __init__(self, embed_dim: int, num_heads: int, max_positions: int, **options):
        super().__init__(
            embed_dim,
            num_heads,
            max_positions,
            scaling=(4 * head_dim_of(embed_dim, num_heads)) ** -0.5,
            **options,
        )
        # the bias is not R alone
        self.softmax_invariant_rows = ()
        self.make_table(max_positions, embed_dim)

    def position_bias(
        self, positions_q: Positions, positions_k: Optional[Positions] = None
    ) -> Tensor:
        if positions_k is None:
            positions_k = positions_q
        of_queries, of_keys = self._at(positions_q, positions_k)
        with without_autocast(of_queries.device):
            bias = self.scaling * torch.matmul(of_queries, of_keys.transpose(-2, -1))
        relative = super().position_bias(positions_q, positions_k)
        return bias if relative is None else bias + relative

    def bias_factors(self, seq_len: int) -> Optional[BiasFactors]:
        return None  # the layers add what depends on the words to the whole bias anyway

    def content_bias(
        self,
        q: Tensor,
        k: Tensor,
        positions_q: Positions,
        positions_k: Positions,
        projected: Optional[Tensor] = None,
    ) -> Tensor:
        at = self._at(positions_q, positions_k) if projected is None else projected
        of_queries, of_keys = (x.to(q.dtype) for x in at)
        word_position = torch.matmul(q, of_keys.transpose(-2, -1))
        position_word = torch.matmul(of_queries, k.transpose(-2, -1))
        return self.scaling * (word_position + position_word)

    def for_layers(self, seq_len: int) -> Tensor:
        # 2 x H x seq_len x K
        return torch.stack(self._at(seq_len, seq_len))

    def _at(self, positions_q: Positions, positions_k: Positions) -> Tuple[Tensor, Tensor]:
        """U_Q p of the queries' positions and U_K p of the keys': (B x) H x T x K."""
        rows = max(table_rows(p, self.max_positions) for p in (positions_q, positions_k))
        as_queries, as_keys = self.project(rows)
        return rows_at(as_queries, positions_q), rows_at(as_keys, positions_k)
