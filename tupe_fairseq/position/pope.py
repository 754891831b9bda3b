"""PoPE: rotary positions where content sets the magnitudes and position alone the angles."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe_fairseq.position.base import PositionEncoding
from tupe_fairseq.position.rope import cosines_and_sines


class PolarPositions(PositionEncoding):
    """Makes each entry of a query or key a 2D vector: content is its length, position its angle.

        logits = sum_n softplus(q_in) softplus(k_jn) cos((p_j - p_i) w_n + d_hn) / sqrt(K)
        w_n = 10000^(-n / K), n = 0 .. K - 1, and learned phases d
        Gopalakrishnan et al. 2025, section 3, https://arxiv.org/abs/2509.10534

    All layers share the phases. They start at 0, as in lucidrains/PoPE-pytorch 2b91cde,
    PoPE_pytorch/pope.py, from line 27 (the authors' code is agopal42/pope). PoPE-pytorch clamps
    them to the paper's range, -2 pi .. 0. So a phase that the first update moves above 0 gets no
    gradient and stays there. Here nothing is clamped: phases have period 2 pi, so each is
    equivalent to one in that range. Angles are float64, the rest is float32 or wider.

    Shape: queries and keys (..., H, K) -> (..., H, 2 K), all cosines, then all sines.
    """

    widening = 2

    def __init__(self, embed_dim: int, num_heads: int, max_positions: int, *, causal: bool = False):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        self.phases = nn.Parameter(torch.empty(self.num_heads, self.head_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.phases)

    def precompute(self, positions: Tensor, length: int) -> Tensor:
        """Cosines and sines for queries, then for keys: positions (...) -> (4, ..., H, K)."""
        cos, sin = cosines_and_sines(positions, self.head_dim, self.unit.dtype).unbind()
        phases = self.phases.to(cos.dtype)
        x, y = phases.cos(), phases.sin()
        of_keys = cos * x - sin * y, sin * x + cos * y
        return torch.stack((*torch.broadcast_tensors(cos, sin, *of_keys)[:2], *of_keys))

    def transform(self, x: Tensor, positions: Tensor, precomputed: Tensor | None = None) -> Tensor:
        precomputed = self.precompute(positions, 0) if precomputed is None else precomputed
        return self._polar(x, *precomputed[:2])

    def transform_keys(self, x: Tensor, positions: Tensor, *precomputed: Tensor) -> Tensor:
        (angles,) = precomputed or (self.precompute(positions, 0),)
        return self._polar(x, *angles[2:])

    def _polar(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        lengths = F.softplus(x.to(cos.dtype))
        return torch.cat([lengths * cos, lengths * sin], dim=-1).to(x.dtype)
