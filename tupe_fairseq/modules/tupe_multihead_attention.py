"""Multi-head self-attention whose scores take a position bias and an explicit scaling."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe_fairseq.attention import Padding, eager
from tupe_fairseq.position import PositionEncoding
from tupe_fairseq.position.positions import Positions, as_tensor


def select(x: Tensor, tokens: Tensor | None) -> Tensor:
    """Some of the tokens (B, L, D) or (N, D) by their indices (n,) -> (n, D); all if None."""
    return x if tokens is None else x.flatten(0, -2).index_select(0, tokens)


class TupeMultiheadAttention(nn.Module):
    """Self-attention over words, plus a bias that is passed in.

        head_h = dropout(softmax(scaling * (x W_Q^h)(x W_K^h)^T + mask[h])) (x W_V^h)
        Ke et al. 2021, Eqs. 8 and 10, https://arxiv.org/abs/2006.15595; scaling = 1 / sqrt(2 K)

    It knows no position: under a constant mask, permuting the tokens permutes the output. A
    ``position`` encoding, where it reads the words, changes q and k and adds to the mask.

    Args:
        scaling (float): factor of the content scores, not of the mask.
        dropout (float): of the attention probabilities.
        position (PositionEncoding, optional): this layer's own.
    Shape: x (B, L, D), mask broadcastable to (B, H, L, L), rows are queries -> (B, L, D); packed
    x (N, D) -> (N, D). At padding the output is finite and undefined.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        scaling: float,
        dropout: float = 0.0,
        position: PositionEncoding | None = None,
    ):
        super().__init__()
        self.num_heads, self.scaling, self.dropout = num_heads, scaling, dropout
        # W_Q, W_K, W_V stacked, as in torch's own attention and the authors' checkpoints
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.position = position
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """BERT's: N(0, 0.02), biases zero."""
        nn.init.normal_(self.in_proj_weight, std=0.02)
        nn.init.normal_(self.out_proj.weight, std=0.02)
        nn.init.zeros_(self.in_proj_bias)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        attend: Callable[..., Tensor] = eager.attend,
        position: PositionEncoding | None = None,
        positions: Positions | None = None,
        padding: Padding | None = None,
        output_tokens: Tensor | None = None,
    ) -> Tensor:
        """What each word gathers from all.

        Args:
            attend: an implementation, see ``tupe_fairseq.attention``.
            position: the encoding that all layers share, if this layer has none of its own.
            positions: of the tokens that ``attend`` gets; 0 .. L - 1 if None.
            padding: unpacks the tokens for ``attend``, if x is packed and ``attend`` needs a batch.
            output_tokens: indices (n,) of the only tokens whose output is needed -> (n, D).
        """
        qkv = self._project(x, padding)
        q, k, v = qkv.unbind(-3)
        q, k, mask = self._with_position(q, k, mask, position, positions)
        dropout = self.dropout if self.training else 0.0
        out = attend(q, k, v, mask, scaling=self.scaling, dropout=dropout).flatten(-2)
        out = out if padding is None else padding.pack(out)
        return self.out_proj(select(out, output_tokens))

    def attention_weights(
        self, x: Tensor, mask: Tensor | None = None, position: PositionEncoding | None = None
    ) -> Tensor:
        """The probabilities of attention without dropout: (B, H, L, L), float32 or wider."""
        q, k, _ = self._project(x, None).unbind(-3)
        q, k, mask = self._with_position(q, k, mask, position, None)
        return eager.attention_probabilities(q, k, mask, scaling=self.scaling)

    def _project(self, x: Tensor, padding: Padding | None) -> Tensor:
        """(B, L, D) -> (B, L, 3, H, K), or packed (N, D) -> (N, 3, H, K)."""
        qkv = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        qkv = qkv.unflatten(-1, (3, self.num_heads, -1))
        return qkv if padding is None else padding.unpack(qkv)

    def _with_position(self, q, k, mask, position, positions):
        position = position if self.position is None else self.position
        if position is None:
            return q, k, mask
        positions = q.size(1) if positions is None else positions
        if position.uses("content_bias"):
            content_bias = position.content_bias(
                q.transpose(1, 2), k.transpose(1, 2), positions, positions
            )
            mask = content_bias if mask is None else mask + content_bias
        if position.uses("transform"):
            of_tokens = as_tensor(positions, q.device).unsqueeze(-1)
            q, k = (position.transform(x, of_tokens) for x in (q, k))
        return q, k, mask
