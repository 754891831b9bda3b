"""ALiBi: a penalty that grows with the distance, with a slope for each head."""

import torch
from torch import Tensor, nn

from tupe_fairseq.position.base import PositionEncoding
from tupe_fairseq.position.positions import Positions
from tupe_fairseq.position.t5_bias import untie_cls


def alibi_slopes(num_heads: int) -> list[float]:
    """A slope for each head: 2^(-8 / H) .. 2^-8, a geometric sequence, if H is a power of two.

    Else, as in the authors' code, all slopes of the power below, every other one of that above.
    """
    lower = 2 ** (num_heads.bit_length() - 1)
    slopes = [2 ** (-8 * (h + 1) / lower) for h in range(lower)]
    between = [2 ** (-8 * (h + 1) / (2 * lower)) for h in range(0, 2 * lower, 2)]
    return slopes + between[: num_heads - lower]


class AlibiBias(PositionEncoding):
    """A penalty linear in the distance, equal on both sides of the query.

        logits = q k^T / sqrt(K) - m_h |p_j - p_i|, then [CLS] untied with ``untie_cls``
        Press et al. 2022, section 3, https://arxiv.org/abs/2108.12409; the paper's with ``causal``

    Only the two scores per head of an untied [CLS] are learned.
    """

    takes = {"untie_cls": False}

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        untie_cls: bool = False,
        causal: bool = False,
    ):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        # not a buffer: see PositionEncoding.unit
        self.slopes = torch.tensor(alibi_slopes(self.num_heads), dtype=torch.float64, device="cpu")
        self.unties_cls = self.cls_row_is_constant = untie_cls
        if untie_cls:
            self.cls_to_other = nn.Parameter(torch.empty(self.num_heads))
            self.other_to_cls = nn.Parameter(torch.empty(self.num_heads))
            self.reset_parameters()

    def reset_parameters(self) -> None:
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02)

    def bias(self, positions_q: Positions, positions_k: Positions) -> Tensor:
        distance = self.distances(positions_q, positions_k).abs()
        slopes = self.slopes.to(distance.dtype).to(distance.device, non_blocking=True)
        bias = distance.unsqueeze(-3) * -slopes[:, None, None]
        if not self.unties_cls:
            return bias
        return untie_cls(bias, self.cls_to_other, self.other_to_cls, positions_q, positions_k)
