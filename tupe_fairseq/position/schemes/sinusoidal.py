"""Sines and cosines of the position, added to the words."""

import math

import torch
from torch import Tensor

from tupe_fairseq.position.absolute import AbsoluteEncoding
from tupe_fairseq.position.positions import Positions, as_tensor, in_float64


def sinusoid(positions: Tensor, dim: int) -> Tensor:
    """Sines, then cosines, of integers at dim / 2 frequencies from 1 down to 1 / 10,000.

    s(p) = [sin(p w_0), ..., sin(p w_n), cos(p w_0), ..., cos(p w_n)], w_i = 10000^(-i / n),
    n = dim / 2 - 1; an odd ``dim`` ends with a zero.
    Source: Vaswani et al. 2017, section 3.5, https://arxiv.org/abs/1706.03762, with the
    frequencies and the order of tensor2tensor and fairseq.

    Shape:
        integers (...) -> (..., dim), float64.
    """
    positions = in_float64(positions)
    half = dim // 2
    steps = torch.arange(half, device=positions.device, dtype=torch.float64)
    frequencies = torch.exp(steps * (-math.log(10000) / max(half - 1, 1)))
    angles = positions.unsqueeze(-1) * frequencies
    values = torch.cat([angles.sin(), angles.cos()], dim=-1)
    return torch.nn.functional.pad(values, (0, dim - 2 * half))


class SinusoidalPositions(AbsoluteEncoding):
    """Fixed vectors of sines and cosines, added to the word embedding before its LayerNorm.

    input = words + s(position); logits = q k^T / sqrt(K) (+ R with ``rel_pos``); s is
    :func:`sinusoid`.  Any integer is a position; there is no table and no parameter.

    Args:
        embed_dim, num_heads, max_positions, causal: see :class:`PositionEncoding`.
        rel_pos, rel_pos_buckets, max_rel_pos, untie_cls: see :class:`AbsoluteEncoding`.
    """

    adds_to_input = True

    def embed(self, positions: Positions) -> Tensor:
        vectors = sinusoid(as_tensor(positions, self.unit.device), self.embed_dim)
        return vectors.to(self.unit.dtype).to(self.unit.device)
