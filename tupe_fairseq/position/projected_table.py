"""A learned table of positions, with projections of its own to queries and keys."""

import contextlib
from typing import ContextManager, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe_fairseq.position.positions import Positions, as_length, as_tensor


def without_autocast(device: torch.device) -> ContextManager:
    """No autocast on a device; the meta device has none."""
    if device.type == "meta":
        return contextlib.nullcontext()
    return torch.autocast(device.type, enabled=False)


class ProjectedTable:
    """A mixin: the table p and the projections U_Q, U_K of a module.

    The module's ``__init__`` calls :meth:`make_table`.
    LN(p) U_Q + b_Q and LN(p) U_K + b_K, for each head.
    Source: Ke, He and Liu 2021, Eq. (7), https://arxiv.org/abs/2006.15595; the layer norm and the
    biases are the authors' code's.
    """

    pos: nn.Embedding
    pos_ln: nn.LayerNorm
    pos_q_proj: nn.Linear
    pos_k_proj: nn.Linear
    num_heads: int

    def make_table(self, num_rows: int, embed_dim: int) -> None:
        self.pos = nn.Embedding(num_rows, embed_dim)
        self.pos_ln = nn.LayerNorm(embed_dim)
        self.pos_q_proj = nn.Linear(embed_dim, embed_dim)
        self.pos_k_proj = nn.Linear(embed_dim, embed_dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """BERT's initialisation: N(0, 0.02), biases zero."""
        for module in (self.pos, self.pos_q_proj, self.pos_k_proj):
            nn.init.normal_(module.weight, std=0.02)
        nn.init.zeros_(self.pos_q_proj.bias)
        nn.init.zeros_(self.pos_k_proj.bias)
        self.pos_ln.reset_parameters()

    def project(self, num_rows: int) -> Iterator[Tensor]:
        """The first rows, normalised and projected: (H, num_rows, K) as queries, then as keys.

        Dtype and device: those of the parameters, but at least float32, also under autocast.
        """
        dtype = torch.promote_types(self.pos.weight.dtype, torch.float32)
        ln, projections = self.pos_ln, (self.pos_q_proj, self.pos_k_proj)
        with without_autocast(self.pos.weight.device):
            vectors = self.pos.weight[:num_rows]
            if vectors.dtype == dtype:
                # the modules' own calls, since quantization puts others in their places
                vectors = ln(vectors)
                projected = [proj(vectors) for proj in projections]
            else:
                vectors = F.layer_norm(
                    vectors.to(dtype),
                    ln.normalized_shape,
                    ln.weight.to(dtype),
                    ln.bias.to(dtype),
                    ln.eps,
                )
                projected = [
                    F.linear(vectors, proj.weight.to(dtype), proj.bias.to(dtype))
                    for proj in projections
                ]
        # num_rows x D -> H x num_rows x K
        return (x.view(num_rows, self.num_heads, -1).transpose(0, 1) for x in projected)


def rows_at(projected: Tensor, positions: Positions) -> Tensor:
    """(H, rows, K), a row a position -> (H, T, K) or (B, H, T, K), the given positions' rows."""
    length = as_length(positions)
    if length is not None:
        return projected[:, :length]
    return projected[:, as_tensor(positions, projected.device)].movedim(0, -3)
