"""Learned or sinusoidal positions, added to the word embeddings, and no positions at all."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.initialization import Embedding
from tupe_fairseq.position.positions import Positions, as_tensor, in_float64, table_rows
from tupe_fairseq.position.t5_bias import WithRelativeBias


class LearnedPositions(WithRelativeBias):
    """A learned vector for each position, added to the word embeddings before the LayerNorm.

        input = words + P[position]          logits = q k^T / sqrt(K) (+ R)
        Devlin et al. 2019, https://arxiv.org/abs/1810.04805; Ke et al. 2021 call it BERT-A,
        Eq. 3, and with ``rel_pos`` BERT-R

    The table of fairseq's RoBERTa starts with two more rows: position t is row t + padding_idx + 1.
    """

    takes = {**WithRelativeBias.takes, "position_each_layer": False}
    TABLE = "pos.weight"

    def make_table(self) -> None:
        self.pos = Embedding(self.max_positions, self.embed_dim)

    def embed(self, positions: Positions) -> Tensor:
        table_rows(positions, self.max_positions)  # refuses positions beyond the table
        return F.embedding(as_tensor(positions, self.pos.weight.device), self.pos.weight)


def sinusoid(positions: Tensor, dim: int) -> Tensor:
    """Sines, then cosines, of the positions at dim / 2 frequencies from 1 down to 1 / 10,000.

        s(p) = [sin(p w_0), .., sin(p w_n), cos(p w_0), .., cos(p w_n)], w_i = 10000^(-i / n),
        n = dim / 2 - 1; an odd dim ends with a zero
        Vaswani et al. 2017, section 3.5, https://arxiv.org/abs/1706.03762; frequencies and order
        as in tensor2tensor and fairseq

    Shape: (...) -> (..., dim), float64.
    """
    positions, half = in_float64(positions), dim // 2
    steps = torch.arange(half, device=positions.device, dtype=torch.float64)
    angles = positions[..., None] * torch.exp(steps * (-math.log(10000) / max(half - 1, 1)))
    return F.pad(torch.cat([angles.sin(), angles.cos()], dim=-1), (0, dim - 2 * half))


class SinusoidalPositions(WithRelativeBias):
    """Fixed vectors, :func:`sinusoid`, added to the word embeddings before the LayerNorm.

    input = words + s(position)          logits = q k^T / sqrt(K) (+ R)
    """

    takes = LearnedPositions.takes

    def embed(self, positions: Positions) -> Tensor:
        vectors = sinusoid(as_tensor(positions, self.unit.device), self.embed_dim)
        return vectors.to(self.unit.dtype).to(self.unit.device)


class NoPosition(WithRelativeBias):
    """No positions: the tokens are a set. With ``rel_pos`` attention sees distances, as in T5.

        logits = q k^T / sqrt(K) (+ R)       Raffel et al. 2020, https://arxiv.org/abs/1910.10683

    T5 itself does not scale the logits and initializes the projections with smaller values.
    """
