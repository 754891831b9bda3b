"""Enformer's relative positions: three classes of basis functions of the distance."""

import math

import torch
from torch import Tensor

from tupe_fairseq.position.encoding import head_dim_of
from tupe_fairseq.position.positions import in_float64
from tupe_fairseq.position.relative_keys import RelativeKeys


def exponential_basis(distances: Tensor, number: int, max_range: int) -> Tensor:
    """2^(-x / half_life), half-lives 2^3 .. ``max_range`` in equal steps of the logarithm."""
    exponents = torch.linspace(
        3.0, math.log2(max_range), number, dtype=torch.float64, device=distances.device
    )
    return torch.exp(-math.log(2) / 2**exponents * distances.unsqueeze(-1))


def central_mask_basis(distances: Tensor, number: int) -> Tensor:
    """1 where x < width, widths 2^1 - 1, 2^2 - 1, .. 2^number - 1, else 0."""
    steps = torch.arange(1, number + 1, dtype=torch.float64, device=distances.device)
    return (2**steps - 1 > distances.unsqueeze(-1)).to(torch.float64)


def gamma_basis(distances: Tensor, number: int, max_range: int) -> Tensor:
    """Gamma densities of x, plus 1e-8, of means from max_range / number to ``max_range``.

    All have the standard deviation max_range / (2 * number).
    """
    mean = torch.linspace(
        max_range / number, max_range, number, dtype=torch.float64, device=distances.device
    )
    stddev = max_range / (2 * number)
    concentration, rate = (mean / stddev) ** 2, mean / stddev**2
    x = distances.to(torch.float64).unsqueeze(-1)
    log_density = torch.xlogy(concentration - 1, x) - rate * x
    log_norm = torch.lgamma(concentration) - concentration * torch.log(rate)
    return torch.exp(log_density - log_norm) + 1e-8


class EnformerRelative(RelativeKeys):
    """As Transformer-XL, with basis functions of the distance instead of sinusoids.

    logits = (scaling * q_i + u) . k_j + (scaling * q_i + v) . (W f(p_j - p_i)) for each head,
    scaling = 1 / sqrt(K); f(x) = [g(|x|), sign(x) g(|x|)], or with ``symmetric_basis`` g(|x|)
    alone; g = [exponential, central mask, gamma / m], as many functions of each class.
    Source: Avsec et al. 2021, supplementary methods, https://doi.org/10.1038/s41592-021-01252-x,
    and for what these leave open the published code: the biases are added after scaling, and m
    is the one greatest value of all gamma functions.

    The narrowest mask is 1 at distance 0 alone, so with a sign it is 0 everywhere.

    Each class has head_dim // 6 functions, with ``symmetric_basis`` head_dim // 3, and at least
    one: about head_dim features, as in the published code.  Its unit of length is the sequence at
    hand; here it is ``max_positions``, over whose distances 0 .. max_positions - 1 m is taken, too,
    so that a distance has one value in all sequences.  Any integer is a position, beyond
    ``max_positions`` as well.  Left out is the published dropout of the features; the biases (u
    is ``global_content_bias``, v ``global_position_bias``) and W (``pos_k_proj``) are initialised
    as in all schemes here, N(0, 0.02).

    Args:
        embed_dim, num_heads, causal: see :class:`PositionEncoding`.
        max_positions (int): the unit of length, at least 2: longest half-life and greatest mean.
        symmetric_basis (bool): the distance counts, its sign does not.
    Dtype and device: see :class:`RelativeKeys`.
    Raises:
        ValueError: if ``max_positions`` is less than 2.
    """

    OPTIONS = ("symmetric_basis",)
    max_positions_is_unit = True
    scales_biases = False

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        symmetric_basis: bool = False,
        causal: bool = False,
    ):
        if max_positions < 2:
            raise ValueError(
                f"max_positions ({max_positions}) must be at least 2 for the basis functions of "
                "enformer, whose unit of length it is; raise --max-positions"
            )
        groups = 3 if symmetric_basis else 6
        functions = max(head_dim_of(embed_dim, num_heads) // groups, 1)
        super().__init__(
            embed_dim, num_heads, max_positions, num_features=groups * functions, causal=causal
        )
        self.symmetric_basis = symmetric_basis
        self.functions_per_class = functions
        # a number, not a buffer, which would be rounded with a module in half precision
        distances = torch.arange(max_positions, device="cpu")
        self.gamma_maximum = float(gamma_basis(distances, functions, max_positions).max())

    def features(self, relative_positions: Tensor) -> Tensor:
        relative_positions = in_float64(relative_positions)
        distances, number = relative_positions.abs(), self.functions_per_class
        basis = torch.cat(
            [
                exponential_basis(distances, number, self.max_positions),
                central_mask_basis(distances, number),
                gamma_basis(distances, number, self.max_positions) / self.gamma_maximum,
            ],
            dim=-1,
        )
        if self.symmetric_basis:
            return basis
        return torch.cat([basis, relative_positions.sign().unsqueeze(-1) * basis], dim=-1)
