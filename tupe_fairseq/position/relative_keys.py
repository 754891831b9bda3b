"""A key for each relative position, and two global biases: Transformer-XL and Enformer."""

import math

import torch
from torch import Tensor, nn

from tupe_fairseq.initialization import Linear
from tupe_fairseq.position.base import PositionEncoding
from tupe_fairseq.position.positions import Positions, in_float64, pick, relative_positions


class RelativeKeys(PositionEncoding):
    """A key for each distance, and two global biases that are added to every query.

        logits = (scaling * q_i + c u) . k_j + (scaling * q_i + c v) . (W features(p_j - p_i))

    u is ``global_content_bias``, v ``global_position_bias``, W ``pos_k_proj``; each layer has its
    own. The features and W are applied to the 2 T - 1 distances, not to all pairs.
    """

    per_layer = True
    bias_scaling: float  # c

    def features(self, distances: Tensor) -> Tensor:
        """Of key position minus query position: (N) -> (N, num_features), float64."""
        raise NotImplementedError

    def make_keys(self, num_features: int) -> None:
        self.global_content_bias = nn.Parameter(torch.empty(self.num_heads, self.head_dim))
        self.global_position_bias = nn.Parameter(torch.empty(self.num_heads, self.head_dim))
        self.pos_k_proj = Linear(num_features, self.embed_dim, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for parameter in self.parameters(recurse=False):
            nn.init.normal_(parameter, std=0.02)

    def precompute(self, positions: Tensor, length: int) -> Tensor:
        """The features of the distances 1 - length .. length - 1: (2 length - 1, num_features)."""
        distances = torch.arange(1 - length, length, device=positions.device)
        return self.features(distances).to(self.unit.dtype).to(positions.device)

    def content_bias(
        self,
        q: Tensor,
        k: Tensor,
        positions_q: Positions,
        positions_k: Positions,
        precomputed: Tensor | None = None,
    ) -> Tensor:
        u, v = self.global_content_bias[:, None], self.global_position_bias[:, None]
        if precomputed is None:
            distances = relative_positions(positions_q, positions_k, q.device)
            precomputed = self.precompute(distances, int(distances.abs().max()) + 1)
        middle, index = precomputed.size(0) // 2, None
        # under torch.export they are not ints
        if isinstance(positions_q, int | range) and isinstance(positions_k, int | range):
            both = positions_q, positions_k
            rows, columns = (x if isinstance(x, range) else range(x) for x in both)
            first, last = columns.start - rows.stop + 1, columns.stop - rows.start
            precomputed = precomputed[middle + first : middle + last]
        else:
            index = relative_positions(positions_q, positions_k, q.device) + middle
        keys = self.pos_k_proj(precomputed)
        # (N, D) -> (H, K, N)
        keys = keys.unflatten(-1, (self.num_heads, self.head_dim)).permute(1, 2, 0)
        query = self.scaling * q + self.bias_scaling * v
        by_distance = torch.matmul(query, keys.to(query.dtype))
        if index is None:
            scores = relative_shift(by_distance, k.size(2))
        else:
            scores = pick(by_distance, index)
        return scores + (self.bias_scaling * u * k).sum(dim=-1).unsqueeze(-2)


def relative_shift(by_distance: Tensor, num_keys: int) -> Tensor:
    """Transformer-XL's shift: from scores for all distances 1 - Tq .. Tk - 1 take those for j - i.

    The result is a view. Its backward pass is several times as fast as that of :func:`pick`.

    Shape: (B, H, Tq, Tq + Tk - 1) -> (B, H, Tq, Tk).
    """
    num_queries, num_distances = by_distance.shape[-2:]
    if num_queries == 1:
        return by_distance
    # Pair (i, j) is entry i * num_distances + (j - i + Tq - 1) of the flat matrix. If we drop the
    # first Tq - 1 entries and make rows one shorter, it is in row i, column j.
    row = num_distances - 1
    flat = by_distance.flatten(-2).narrow(-1, num_queries - 1, num_queries * row)
    return flat.unflatten(-1, (num_queries, row))[..., :num_keys]


class TransformerXlRelative(RelativeKeys):
    """Sinusoidal keys for distances.

        logits = (scaling * q_i + c u) . k_j + (scaling * q_i + c v) . (W s(p_i - p_j)), c = scaling
        s(x) = [sin(x w_0), sin(x w_1), .., cos(x w_0), cos(x w_1), ..], w_i = 10000^(-2i / D)
        Dai et al. 2019, section 3.3, https://arxiv.org/abs/1901.02860

    Each layer has its own u, v and W, as with ``untie_r`` in the authors' code. Keys can be on both
    sides of the query; in the paper they are only before it.
    """

    def __init__(self, embed_dim: int, num_heads: int, max_positions: int, *, causal: bool = False):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        self.bias_scaling = self.scaling
        self.make_keys(embed_dim)

    def features(self, distances: Tensor) -> Tensor:
        distances = -in_float64(distances)
        steps = torch.arange(0, self.embed_dim, 2, device=distances.device, dtype=torch.float64)
        angles = distances[:, None] * torch.exp(steps * (-math.log(10000) / self.embed_dim))
        return torch.cat([angles.sin(), angles.cos()], dim=-1)[:, : self.embed_dim]


class EnformerRelative(RelativeKeys):
    """Transformer-XL's form with basis functions of the distance.

        logits = (q_i / sqrt(K) + u) . k_j + (q_i / sqrt(K) + v) . (W f(p_j - p_i))
        f(x) = [g(|x|), sign(x) g(|x|)], or with ``symmetric_basis`` g(|x|)
        g = [exponential, central mask, gamma / its maximum], max(K // 6 or K // 3, 1) of each
        Avsec et al. 2021, supplementary methods, https://doi.org/10.1038/s41592-021-01252-x

    What the paper leaves open follows the published code: the biases are added after scaling, and
    the gamma functions share one maximum. That code measures distances in units of the current
    sequence. Here the unit is ``max_positions``, so a distance means the same in every sequence.
    """

    takes = {"symmetric_basis": False}
    max_positions_is_unit = True

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        symmetric_basis: bool = False,
        causal: bool = False,
    ):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        self.bias_scaling, self.symmetric_basis = 1.0, symmetric_basis
        groups = 3 if symmetric_basis else 6
        self.number = number = max(self.head_dim // groups, 1)
        self.make_keys(groups * number)
        all_distances = torch.arange(max_positions, device="cpu", dtype=torch.float64)
        self.gamma_maximum = float(gamma_basis(all_distances, number, max_positions).max())

    def features(self, distances: Tensor) -> Tensor:
        distances = in_float64(distances)
        x, number = distances.abs(), self.number
        basis = torch.cat(
            [
                exponential_basis(x, number, self.max_positions),
                central_mask_basis(x, number),
                gamma_basis(x, number, self.max_positions) / self.gamma_maximum,
            ],
            dim=-1,
        )
        if self.symmetric_basis:
            return basis
        return torch.cat([basis, distances.sign()[:, None] * basis], dim=-1)


def exponential_basis(x: Tensor, number: int, longest: int) -> Tensor:
    """2^(-x / half-life), with half-lives spaced geometrically from 2^3 to ``longest``."""
    half_lives = 2 ** torch.linspace(3, math.log2(longest), number, dtype=x.dtype, device=x.device)
    return torch.exp(-math.log(2) / half_lives * x[:, None])


def central_mask_basis(x: Tensor, number: int) -> Tensor:
    """1 where x is below the width, else 0; the widths are 2^1 - 1, 2^2 - 1, .. 2^number - 1."""
    widths = 2 ** torch.arange(1, number + 1, dtype=x.dtype, device=x.device) - 1
    return (widths > x[:, None]).to(x.dtype)


def gamma_basis(x: Tensor, number: int, longest: int) -> Tensor:
    """Gamma densities + 1e-8, with means longest / number .. longest, std longest / (2 number)."""
    deviation = longest / (2 * number)
    means = [longest * n / number for n in range(1, number + 1)]
    shapes, rates = [(m / deviation) ** 2 for m in means], [m / deviation**2 for m in means]
    # on the host, because ONNX has no lgamma
    norms = [math.lgamma(c) - c * math.log(r) for c, r in zip(shapes, rates)]
    shape, rate, log_norm = x.new_tensor([shapes, rates, norms]).unbind()
    return torch.exp(torch.xlogy(shape - 1, x[:, None]) - rate * x[:, None] - log_norm) + 1e-8
