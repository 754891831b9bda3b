"""Shaw's relative positions: a learned key for the clipped distance."""

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.initialization import Embedding
from tupe_fairseq.options import SHAW_MAX_DISTANCE
from tupe_fairseq.position.base import PositionEncoding
from tupe_fairseq.position.positions import Positions, pick, relative_positions


class ShawRelative(PositionEncoding):
    """A learned vector for each distance up to a maximum, which is added to the key.

        logits = q_i . (k_j + a[clip(p_j - p_i, -r, r)]) / sqrt(K),   r = ``max_rel_pos``
        Shaw et al. 2018, Eq. 5 and section 3.2, https://arxiv.org/abs/1803.02155

    Heads share the vectors; each layer has its own. The paper also adds vectors a^V to the values
    (Eq. 3). They are left out, because a position encoding only changes the logits here.
    """

    takes = {"max_rel_pos": SHAW_MAX_DISTANCE}
    per_layer = True

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        max_rel_pos: int = SHAW_MAX_DISTANCE,
        causal: bool = False,
    ):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        self.max_rel_pos = max_rel_pos
        self.relative_keys = Embedding(2 * max_rel_pos + 1, self.head_dim)

    def content_bias(
        self, q: Tensor, k: Tensor, positions_q: Positions, positions_k: Positions
    ) -> Tensor:
        reach = self.max_rel_pos
        distances = relative_positions(positions_q, positions_k, q.device).clamp(-reach, reach)
        # (B, H, Tq, 2 reach + 1); not in 16 bits: backward sums over all keys beyond the reach
        scores = F.linear(self.scaling * q, self.relative_keys.weight.to(q.dtype))
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return pick(scores, distances + reach)
