"""Transformer-XL's relative positions: sines and cosines of the distance, two global biases."""

import math

import torch
from torch import Tensor

from tupe_fairseq.position.positions import in_float64
from tupe_fairseq.position.relative_keys import RelativeKeys


def distance_sinusoid(distances: Tensor, dim: int) -> Tensor:
    """Sines, then cosines, of integers of either sign at the frequencies of the Transformer.

    s(x) = [sin(x w_0), sin(x w_1), ..., cos(x w_0), cos(x w_1), ...], w_i = 10000^(-2i / dim);
    an odd ``dim`` has one sine more than cosines.
    Source: Vaswani et al. 2017, section 3.5, https://arxiv.org/abs/1706.03762, in the order of
    Dai et al. 2019.  (:func:`sinusoid`, fairseq's, spaces its frequencies a little differently.)

    Shape:
        integers (N) -> (N, dim), float64.
    """
    distances = in_float64(distances)
    steps = torch.arange(0, dim, 2, device=distances.device, dtype=torch.float64)
    frequencies = torch.exp(steps * (-math.log(10000) / dim))
    angles = distances.unsqueeze(-1) * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[:, :dim]


class TransformerXlRelative(RelativeKeys):
    """Scores for content and for distance, each with a global bias in place of a query.

    logits = scaling * ((q_i + u) . k_j + (q_i + v) . (W_R s(p_i - p_j))) for each head,
    scaling = 1 / sqrt(K); s is :func:`distance_sinusoid`.
    Source: Dai et al. 2019, section 3.3, https://arxiv.org/abs/1901.02860, for keys on both
    sides of the query; in the paper they come before it only.

    W_R (``pos_k_proj``) is each layer's own, as in the paper.  So are u and v
    (``global_content_bias``, ``global_position_bias``) here, as with ``untie_r`` of the authors'
    code; the paper shares them among layers.  They are initialised with N(0, 0.02), as in that
    code. Any integer is a position; there is no table.

    Args:
        embed_dim, num_heads, max_positions, causal: see :class:`PositionEncoding`;
            ``max_positions`` limits nothing here.
    Dtype and device: see :class:`RelativeKeys`.
    """

    def __init__(self, embed_dim: int, num_heads: int, max_positions: int, *, causal: bool = False):
        super().__init__(embed_dim, num_heads, max_positions, num_features=embed_dim, causal=causal)

    def features(self, relative_positions: Tensor) -> Tensor:
        # the paper's distance: query position minus key position
        return distance_sinusoid(-relative_positions, self.embed_dim)
