"""KERPLE: a penalty that grows with the logarithm of the distance, learned for each head."""

import torch
from torch import Tensor, nn

from tupe_fairseq.position.base import PositionEncoding
from tupe_fairseq.position.positions import Positions

LEAST = 0.01  # initial r1 and r2 are at least this


class KerpleBias(PositionEncoding):
    """A logarithmic penalty, equal on both sides of the query; each head learns r1 > 0 and r2 > 0.

        logits = q k^T / sqrt(K) - r1_h log(1 + r2_h |p_j - p_i|)
        Chi et al. 2022, the logarithmic form, https://arxiv.org/abs/2205.09921; the paper is causal

    All layers share them, as in the authors' code, chijames/KERPLE 73f1ee2, megatron/mpu/layers.py,
    class ParallelKerpleLog, line 191. The initial values are also from there: uniform up to 2 for
    r1 and up to 1 for r2, but at least 0.01. That code clamps both to 0.01 during training, too.
    Here their logarithms are the parameters, which keeps them positive.

    Shape: positions (T) or (B, T) -> (H, Tq, Tk) or (B, H, Tq, Tk).
    """

    def __init__(self, embed_dim: int, num_heads: int, max_positions: int, *, causal: bool = False):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        self.log_r1, self.log_r2 = (nn.Parameter(torch.empty(self.num_heads)) for _ in range(2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        with torch.no_grad():
            for parameter, most in ((self.log_r1, 2), (self.log_r2, 1)):
                nn.init.uniform_(parameter, 0, most)
                parameter.clamp_(min=LEAST).log_()

    def bias(self, positions_q: Positions, positions_k: Positions) -> Tensor:
        r1, r2 = (x.exp()[:, None, None] for x in (self.log_r1, self.log_r2))
        distance = self.distances(positions_q, positions_k).abs()
        return -r1 * torch.log1p(r2 * distance.unsqueeze(-3))
