"""Multi-head self-attention with a position bias and an explicit scaling of the scores."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe_fairseq.attention.base import Attention
from tupe_fairseq.initialization import Linear
from tupe_fairseq.position.base import PositionEncoding


class TupeMultiheadAttention(nn.Module):
    """Self-attention over words, plus a bias that is passed in.

        head_h = dropout(softmax(scaling * (x W_Q^h)(x W_K^h)^T + bias[h])) (x W_V^h)
        Ke et al. 2021, Eqs. 8 and 10, https://arxiv.org/abs/2006.15595; scaling = 1 / sqrt(2 K)

    It does not know positions: with a constant bias, permuting the tokens permutes the output. A
    ``position`` encoding that reads the words changes q and k or adds to the bias.

    Args:
        scaling (float): factor of the content scores, not of the bias.
        position (PositionEncoding, optional): the layer's own encoding.
    Shape: x (N, D), all tokens of a batch -> (N, D), or (n, D) for ``output_tokens`` (n,), the
    indices of the tokens whose output is needed.
    """

    out_proj: nn.Linear

    def __init__(self, config, scaling: float, position: PositionEncoding | None = None):
        super().__init__()
        self.num_heads, self.scaling = config.num_heads, scaling
        self.dropout = config.attention_dropout
        self.make_projections(config.embed_dim)
        self.position = position

    def make_projections(self, dim: int) -> None:
        # W_Q, W_K, W_V stacked, as in torch's own attention and the authors' checkpoints
        self.in_proj_weight = nn.Parameter(torch.empty(3 * dim, dim))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * dim))
        self.out_proj = Linear(dim, dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """BERT's: N(0, 0.02), biases zero."""
        nn.init.normal_(self.in_proj_weight, std=0.02)
        nn.init.zeros_(self.in_proj_bias)

    def project(self, x: Tensor) -> Tensor:
        """To queries, keys and values: (N, D) -> (N, 3 D)."""
        return F.linear(x, self.in_proj_weight, self.in_proj_bias)

    def queries_and_keys(self, x: Tensor) -> Tensor:
        """(N, D) -> (N, 2, H, K)."""
        return self.project(x).unflatten(-1, (3, self.num_heads, -1))[:, :2]

    def forward(
        self, x: Tensor, attention: Attention, output_tokens: Tensor | None = None
    ) -> Tensor:
        """Attend from each token to all tokens of its sequence."""
        qkv = self.project(x).unflatten(-1, (3, self.num_heads, -1))
        dropout = self.dropout if self.training else 0.0
        position, precomputed = self.of_layer(attention)
        out = attention(qkv, position, precomputed, scaling=self.scaling, dropout=dropout)
        return self.out_proj(select(out.flatten(-2), output_tokens))

    def of_layer(self, shared) -> tuple[PositionEncoding | None, list[Tensor]]:
        """The layer's position encoding, and what it gets of what is ``precomputed`` for all."""
        position = self.position or shared.position
        if position is None:
            return None, []
        return position, [position.in_layer(x, self.queries_and_keys) for x in shared.precomputed]


def select(x: Tensor, tokens: Tensor | None) -> Tensor:
    """Select tokens (N, D) by indices (n,) -> (n, D); all if None."""
    return x if tokens is None else x.index_select(0, tokens)
