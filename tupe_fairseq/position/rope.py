"""Rotary positions: queries and keys rotated by angles that grow with the position."""

import torch
from torch import Tensor

from tupe_fairseq.options import ROPE_BASE
from tupe_fairseq.position.base import PositionEncoding
from tupe_fairseq.position.positions import in_float64


def cosines_and_sines(
    positions: Tensor, number: int, dtype: torch.dtype, base: int = ROPE_BASE
) -> Tensor:
    """Cosines and sines of p base^(-n / number): (...) -> (2, ..., number), float32 or wider."""
    device, positions = positions.device, in_float64(positions)
    steps = torch.arange(number, device=positions.device, dtype=torch.float64)
    angles = positions[..., None] * float(base) ** (-steps / number)
    dtype = torch.promote_types(dtype, torch.float32)
    return torch.stack((angles.cos(), angles.sin())).to(dtype).to(device)


class RotaryPositions(PositionEncoding):
    """Rotates pairs of entries of queries and keys by the position times a frequency.

        logits = rotate(q_i, p_i) . rotate(k_j, p_j) / sqrt(K)
        rotate([y, z], p) = [y cos(p w) - z sin(p w), z cos(p w) + y sin(p w)]
        w_n = base^(-2n / K), n = 0 .. floor(share K / 2) - 1; further pairs do not rotate
        Su et al. 2021, Eqs. 14 and 15, https://arxiv.org/abs/2104.09864 (base 10000, share 1)
        Barbero et al. 2024, section 6 (p-RoPE), https://arxiv.org/abs/2410.06205 (share)

    Entries of the first half are paired with those of the second, as in GPT-NeoX and LLaMA; the
    paper pairs neighbours. Angles are computed in float64, rotations in float32 or wider.
    """

    takes = {"rope_base": ROPE_BASE, "rope_share": 1.0}

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        rope_base: int = ROPE_BASE,
        rope_share: float = 1.0,
        causal: bool = False,
    ):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        if self.head_dim % 2:
            raise ValueError(
                f"head_dim ({self.head_dim} = embed_dim {embed_dim} / num_heads {num_heads}) must "
                "be even for rope"
            )
        self.base, self.num_rotated = rope_base, int(rope_share * self.head_dim / 2 + 1e-9)
        if not self.num_rotated:
            raise ValueError(
                f"rope_share ({rope_share}) of the {self.head_dim // 2} pairs of entries in a head "
                "is less than one; raise it"
            )

    def precompute(self, positions: Tensor, length: int) -> Tensor:
        """Cosines and sines: positions (...) -> (2, ..., K / 2)."""
        pairs = self.head_dim // 2
        both = cosines_and_sines(positions, pairs, self.unit.dtype, self.base)
        if self.num_rotated < pairs:
            both[0, ..., self.num_rotated :] = 1
            both[1, ..., self.num_rotated :] = 0
        return both

    def transform(self, x: Tensor, positions: Tensor, precomputed: Tensor | None = None) -> Tensor:
        both = self.precompute(positions, 0) if precomputed is None else precomputed
        cos, sin = both.unbind()
        y, z = x.chunk(2, dim=-1)
        return torch.cat([y * cos - z * sin, z * cos + y * sin], dim=-1).to(x.dtype)
