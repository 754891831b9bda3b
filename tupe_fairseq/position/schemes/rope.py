"""Rotary positions: queries and keys rotated by angles that grow with the position."""

import torch
from torch import Tensor

from tupe_fairseq.position.encoding import PositionEncoding
from tupe_fairseq.position.positions import in_float64

BASE = 10000.0


class RotaryPositions(PositionEncoding):
    """Pairs of values of queries and keys, rotated by the position times a frequency.

    logits = rotate(q_i, p_i) . rotate(k_j, p_j) / sqrt(K), for each head; with x = [y, z] in
    halves and w_n = 10000^(-2n / K), n = 0 .. K/2 - 1:
    rotate(x, p) = [y cos(p w) - z sin(p w), z cos(p w) + y sin(p w)].
    Only the difference of two positions counts.
    Source: Su et al. 2021, Eqs. (14) and (15), https://arxiv.org/abs/2104.09864.  The paper pairs
    neighbouring values; here, as in GPT-NeoX and LLaMA, a value of the first half goes with one
    of the second, which is the same up to the order of the values.

    Any integer is a position; there is no table and no parameter.

    Args:
        embed_dim, num_heads, max_positions, causal: see :class:`PositionEncoding`;
            ``max_positions`` limits nothing here.
    Dtype: angles are computed in float64 and rotations in float32 at least; the result has the
        dtype of x.
    Raises:
        ValueError: if the head dimension is odd, or ``num_heads`` does not divide ``embed_dim``.
    """

    reads_content = True

    def __init__(self, embed_dim: int, num_heads: int, max_positions: int, *, causal: bool = False):
        super().__init__(embed_dim, num_heads, max_positions, causal=causal)
        if self.head_dim % 2:
            raise ValueError(
                f"head_dim ({self.head_dim} = embed_dim {embed_dim} / num_heads {num_heads}) must "
                "be even, because rope rotates pairs of values; change --encoder-attention-heads "
                "or --encoder-embed-dim"
            )

    def transform(self, x: Tensor, positions: Tensor) -> Tensor:
        half = self.head_dim // 2
        positions = in_float64(positions)
        steps = torch.arange(half, device=positions.device, dtype=torch.float64)
        # ... x 1 times K/2
        angles = positions.unsqueeze(-1) * BASE ** (-steps / half)
        dtype = torch.promote_types(x.dtype, torch.float32)
        cos, sin = (y.to(dtype).to(x.device) for y in (angles.cos(), angles.sin()))
        first, second = x[..., :half], x[..., half:]
        rotated = [first * cos - second * sin, second * cos + first * sin]
        return torch.cat(rotated, dim=-1).to(x.dtype)
