"""ALiBi: a penalty that grows with the distance, with a slope for each head."""

from typing import Iterator, List, Optional

import torch
from torch import Tensor, nn

from tupe_fairseq.position.bias_factors import BiasFactors
from tupe_fairseq.position.encoding import PositionEncoding
from tupe_fairseq.position.positions import Positions, relative_positions
from tupe_fairseq.position.reset_cls import untie_cls, untied_factors


def alibi_slopes(num_heads: int) -> List[float]:
    """The slope of each head: from 2^(-8 / H) down to 2^-8, each the same factor of the last.

    That is for a power of two.  Other numbers take all slopes of the next lower power of two and
    then every other one, from the first on, of the next higher one, which lie between those.
    Source: Press, Smith and Lewis 2022, section 3, https://arxiv.org/abs/2108.12409, and for
    other numbers the authors' code.
    """
    lower = 2 ** (num_heads.bit_length() - 1)
    slopes = [2 ** (-8 * (h + 1) / lower) for h in range(lower)]
    between = [2 ** (-8 * (h + 1) / (2 * lower)) for h in range(0, 2 * lower, 2)]
    return slopes + between[: num_heads - lower]


class AlibiBias(PositionEncoding):
    """A penalty on distant keys: linear in the distance, and equal on both sides.

    logits = q k^T / sqrt(K) + bias; bias[h, i, j] = -m_h |p_j - p_i| for positions p, then
    [CLS] untied with ``untie_cls``; m is :func:`alibi_slopes`.
    Source: Press, Smith and Lewis 2022, section 3, https://arxiv.org/abs/2108.12409.

    The paper's model is causal, and with ``causal`` this is it.  Without, it is the symmetric
    bidirectional form: keys before and after the query are penalised equally, so that a head cannot
    tell the two sides apart.  Nothing is learned, unless [CLS] is untied: then two values per head.
    Any integer is a position; there is no table.

    Args:
        embed_dim, num_heads, max_positions, causal: see :class:`PositionEncoding`;
            ``max_positions`` limits nothing here.
        untie_cls (bool): give [CLS] scores of its own, learned, in place of its distances.
    """

    OPTIONS = ("untie_cls",)

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        causal: bool = False,
        untie_cls: bool = False,
    ):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        # not a buffer, which half precision would round
        self.slopes = alibi_slopes(num_heads)
        self.unties_cls = untie_cls
        if untie_cls:
            self.cls_to_other = nn.Parameter(torch.empty(num_heads))
            self.other_to_cls = nn.Parameter(torch.empty(num_heads))
            # cls_to_other is a row of one value
            self.softmax_invariant_rows = (0,)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """BERT's initialisation: N(0, 0.02)."""
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02)

    def position_bias(
        self, positions_q: Positions, positions_k: Optional[Positions] = None
    ) -> Tensor:
        if positions_k is None:
            positions_k = positions_q
        slopes = self._slopes()
        distance = relative_positions(positions_q, positions_k, slopes.device).abs()
        # (B x) 1 x Tq x Tk times H x 1 x 1
        bias = distance.to(slopes.dtype).unsqueeze(-3) * -slopes[:, None, None]
        if not self.unties_cls:
            return bias
        to_other, to_cls = self._of_cls()
        return untie_cls(bias, to_other, to_cls, positions_q, positions_k)

    def bias_factors(self, seq_len: int) -> BiasFactors:
        slopes = self._slopes()
        distance = torch.arange(1 - seq_len, seq_len, device=slopes.device).abs()
        by_distance = distance.to(slopes.dtype) * -slopes[:, None]
        if not self.unties_cls:
            return BiasFactors(None, None, by_distance)
        return untied_factors(None, None, by_distance, *self._of_cls())

    def _slopes(self) -> Tensor:
        given = self.cls_to_other if self.unties_cls else self.unit
        dtype = torch.promote_types(given.dtype, torch.float32)
        return torch.tensor(self.slopes, device=given.device, dtype=dtype)

    def _of_cls(self) -> Iterator[Tensor]:
        dtype = torch.promote_types(self.cls_to_other.dtype, torch.float32)
        return (score.to(dtype) for score in (self.cls_to_other, self.other_to_cls))
