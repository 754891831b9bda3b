"""Shaw's relative positions: queries see a learned vector for the clipped distance."""

from typing import Any, Dict, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe_fairseq.position.encoding import PositionEncoding
from tupe_fairseq.position.known_schemes import MAX_REL_POS
from tupe_fairseq.position.positions import Positions, relative_positions
from tupe_fairseq.position.relative_keys import pick


class ShawRelative(PositionEncoding):
    """A learned vector for each distance, up to a maximum, that queries see as a key.

    logits = q_i . (k_j + a_clip(p_j - p_i)) / sqrt(K), clip(x) = max(-k, min(k, x)) with
    k = ``max_rel_pos``, for each head.
    Source: Shaw, Uszkoreit and Vaswani 2018, Eq. (5) with the clipping of section 3.2,
    https://arxiv.org/abs/1803.02155.  The vectors a are its a^K; heads share them (section 3.3),
    and each layer has its own.

    The paper's vectors a^V, which Eq. (3) adds to the values, are left out, because here a
    position encoding changes only the logits; in the paper's ablation they made next to no
    difference. Any integer is a position; there is no table of positions.

    q_i . a_n is computed for the 2k + 1 vectors, not for every pair, and then picked.

    Args:
        embed_dim, num_heads, max_positions, causal: see :class:`PositionEncoding`;
            ``max_positions`` limits nothing here.
        max_rel_pos (int): k, at least 1.
    Dtype: that of q, but at least float32.
    Raises:
        ValueError: if ``max_rel_pos`` is less than 1, or ``num_heads`` does not divide
            ``embed_dim``.
    """

    OPTIONS = ("max_rel_pos",)
    per_layer = True
    reads_content = True

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        causal: bool = False,
        max_rel_pos: int = MAX_REL_POS,
    ):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        if max_rel_pos < 1:
            raise ValueError(f"max_rel_pos ({max_rel_pos}) must be at least 1; raise --max-rel-pos")
        self.max_rel_pos = max_rel_pos
        self.relative_keys = nn.Embedding(2 * max_rel_pos + 1, self.head_dim)
        self.reset_parameters()

    @classmethod
    def defaults(cls, given: Mapping[str, Any]) -> Dict[str, Any]:
        return {"max_rel_pos": MAX_REL_POS}

    def reset_parameters(self) -> None:
        """BERT's initialisation: N(0, 0.02)."""
        nn.init.normal_(self.relative_keys.weight, std=0.02)

    def content_bias(
        self, q: Tensor, k: Tensor, positions_q: Positions, positions_k: Positions
    ) -> Tensor:
        reach = self.max_rel_pos
        relative = relative_positions(positions_q, positions_k, q.device)
        # (B x) Tq x Tk
        rows = relative.clamp(-reach, reach) + reach
        # B x H x Tq x (2k + 1)
        scores = F.linear(self.scaling * q, self.relative_keys.weight.to(q.dtype))
        # Backward adds up all keys beyond k, too many for 16 bits.
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return pick(scores, rows)
