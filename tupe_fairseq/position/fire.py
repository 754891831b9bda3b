"""FIRE: a learned function of the distance, normalized by the larger position."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe_fairseq.position.base import PositionEncoding
from tupe_fairseq.position.positions import Positions, as_tensor

FIRST_THRESHOLD = 512  # L before training
WIDTH = 32  # of the hidden layer
EPSILON = 1e-6


class FireBias(PositionEncoding):
    """An MLP of the logarithm of the distance, divided by the logarithm of the larger position.

        logits = q k^T / sqrt(K) + f_h(x),   f_h(x) = w_h . relu(u x + b)
        x = sign(p_i - p_j) psi(|p_i - p_j|) / psi(max(L, p_i, p_j)),   psi(d) = log(1 + |c| d)
        Li et al. 2024, section 3, https://arxiv.org/abs/2310.04418

    The parameters are c, L = 512 |``threshold``|, u and b of 32 hidden units, and w. All layers
    share them (FIRE-S). The paper only has p_j <= p_i, where x is the same as here. For later keys
    x is negative, so that the two sides differ, and the denominator has p_j, so that |x| <= 1. The
    output has no bias, because the softmax would cancel it. What the paper leaves open follows
    mcleish7/arithmetic 86022a5, cramming/architectures/embeddings.py, class FIRE, line 419: initial
    values, the factor 512, |c|, and 1e-6 in the denominator. (For later keys that code has
    |p_i - p_j| and p_i.)

    Shape: positions (T) or (B, T) -> (H, Tq, Tk) or (B, H, Tq, Tk), by way of (..., Tq, Tk, 32).
    """

    def __init__(self, embed_dim: int, num_heads: int, max_positions: int, *, causal: bool = False):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        self.c, self.threshold = (nn.Parameter(torch.empty(1)) for _ in range(2))
        self.hidden_weight, self.hidden_bias = (nn.Parameter(torch.empty(WIDTH)) for _ in range(2))
        self.out_weight = nn.Parameter(torch.empty(self.num_heads, WIDTH))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.c, 0.1)
        nn.init.ones_(self.threshold)
        for x in (self.hidden_weight, self.hidden_bias, self.out_weight):  # as in nn.Linear
            bound = 1 if x.dim() == 1 else WIDTH**-0.5
            nn.init.uniform_(x, -bound, bound)

    def bias(self, positions_q: Positions, positions_k: Positions) -> Tensor:
        c, threshold, u, b, w = self.parameters()
        i = as_tensor(positions_q, c.device).unsqueeze(-1)
        j = as_tensor(positions_k, c.device).unsqueeze(-2)
        distance, larger = i - j, torch.maximum(i, j)
        far = torch.maximum(larger, (FIRST_THRESHOLD * threshold).abs())
        psi, psi_far = (torch.log1p((c * d).abs()) for d in (distance, far))
        x = distance.sign() * psi / (psi_far + EPSILON)
        return F.linear(F.relu(x.unsqueeze(-1) * u + b), w).movedim(-1, -3)
