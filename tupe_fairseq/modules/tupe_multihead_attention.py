"""Multi-head self-attention with a position bias and an explicit scaling of the scores."""

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe_fairseq.attention import Sequences, eager
from tupe_fairseq.initialization import Linear
from tupe_fairseq.matrices import mark_matrices
from tupe_fairseq.options import TupeConfig
from tupe_fairseq.position import PositionEncoding


def select(x: Tensor, tokens: Tensor | None) -> Tensor:
    """Select tokens (N, D) by indices (n,) -> (n, D); all if None."""
    return x if tokens is None else x.index_select(0, tokens)


class TupeMultiheadAttention(nn.Module):
    """Self-attention over words, plus a bias that is passed in.

        head_h = dropout(softmax(scaling * (x W_Q^h)(x W_K^h)^T + bias[h])) (x W_V^h)
        Ke et al. 2021, Eqs. 8 and 10, https://arxiv.org/abs/2006.15595; scaling = 1 / sqrt(2 K)

    It does not know positions: with a constant bias, permuting the tokens permutes the output. A
    ``position`` encoding that reads the words changes q and k or adds to the bias.

    Args:
        scaling (float): factor of the content scores, not of the bias.
        position (PositionEncoding, optional): the layer's own encoding.
    Shape: x (N, D), all tokens of a batch, bias (H, n, n) -> (N, D).
    """

    def __init__(self, config: TupeConfig, scaling: float, position: PositionEncoding | None):
        super().__init__()
        embed_dim, self.num_heads = config.embed_dim, config.num_heads
        self.scaling, self.dropout = scaling, config.attention_dropout
        # W_Q, W_K, W_V stacked, as in torch's own attention and the authors' checkpoints
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * embed_dim))
        self.out_proj = Linear(embed_dim, embed_dim)
        mark_matrices(self.in_proj_weight, stacked=3)
        mark_matrices(self.out_proj.weight)
        self.position = position
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """BERT's: N(0, 0.02), biases zero."""
        nn.init.normal_(self.in_proj_weight, std=0.02)
        nn.init.zeros_(self.in_proj_bias)

    def forward(
        self,
        x: Tensor,
        precomputed: Tensor | None,
        *masks: Tensor | None,
        sequences: Sequences,
        attend: Callable[..., Tensor] = eager.attend,
        position: PositionEncoding | None = None,
        output_tokens: Tensor | None = None,
    ) -> Tensor:
        """Attend from each token to all tokens of its sequence.

        Args:
            precomputed: the result of ``position.precompute``.
            masks: the result of ``make_masks`` of the implementation that ``attend`` belongs to,
                see ``tupe_fairseq.attention``.
            position: the encoding that all layers share, if this layer has none of its own.
            output_tokens: indices (n,) of the tokens whose output is needed -> (n, D).
        """
        position = position if self.position is None else self.position
        qkv = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        qkv = qkv.unflatten(-1, (3, self.num_heads, -1))
        more = () if precomputed is None else (precomputed,)
        if position is not None and position.uses("content_bias"):
            content_bias = functools.partial(_content_bias, position, more)
            attend = functools.partial(attend, content_bias=content_bias)
        if position is not None and position.uses("transform"):
            qk, v = qkv.split((2, 1), dim=1)
            at = sequences.positions[:, None, None], *more
            if position.uses("transform_keys"):
                q, k = qk.split(1, dim=1)
                qk = torch.cat((position.transform(q, *at), position.transform_keys(k, *at)), dim=1)
                v = F.pad(v, (0, qk.size(-1) - v.size(-1)))  # attention needs one width
            else:
                qk = position.transform(qk, *at)
            qkv = torch.cat((qk, v), dim=1)
        dropout = self.dropout if self.training else 0.0
        out = attend(qkv, masks, sequences, scaling=self.scaling, dropout=dropout)
        out = out[..., : self.out_proj.in_features // self.num_heads].flatten(-2)
        return self.out_proj(select(out, output_tokens))


def _content_bias(position: PositionEncoding, more: tuple[Tensor, ...], q: Tensor, k: Tensor):
    """For sequences that begin at position 0: q, k (B, H, L, K) -> (B, H, L, L)."""
    return position.content_bias(q, k, q.size(2), k.size(2), *more)
