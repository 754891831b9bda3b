"""Learned vectors added to the words, as in BERT and RoBERTa."""

import torch.nn.functional as F
from torch import Tensor, nn

from tupe_fairseq.position.absolute import AbsoluteEncoding
from tupe_fairseq.position.positions import Positions, as_length, as_tensor, table_rows


class LearnedPositions(AbsoluteEncoding):
    """A learned vector for each position, added to the word embedding before its LayerNorm.

    input = words + P[position]; logits = q k^T / sqrt(K) (+ R with ``rel_pos``).
    Source: Devlin et al. 2019, https://arxiv.org/abs/1810.04805; the BERT-A, and with ``rel_pos``
    the BERT-R, of Ke, He and Liu 2021, Eq. (3).

    RoBERTa's table in fairseq has two more rows, its first, which no real token reads: there
    position t is row t + padding_idx + 1.

    Args:
        embed_dim, num_heads, max_positions, causal: see :class:`PositionEncoding`.
        rel_pos, rel_pos_buckets, max_rel_pos, untie_cls: see :class:`AbsoluteEncoding`.
    Raises:
        ValueError: if a position is not in the table.
    """

    TABLE = "pos.weight"
    adds_to_input = True

    def __init__(self, embed_dim: int, num_heads: int, max_positions: int, **options):
        super().__init__(embed_dim, num_heads, max_positions, **options)
        self.pos = nn.Embedding(max_positions, embed_dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """BERT's initialisation: N(0, 0.02)."""
        nn.init.normal_(self.pos.weight, std=0.02)

    def embed(self, positions: Positions) -> Tensor:
        rows = table_rows(positions, self.max_positions)
        if as_length(positions) is not None:
            return self.pos.weight[:rows]
        return F.embedding(as_tensor(positions, self.pos.weight.device), self.pos.weight)
