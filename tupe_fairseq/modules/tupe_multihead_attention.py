"""Multi-head self-attention whose scores take a real-valued bias and an explicit scaling."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TupeMultiheadAttention(nn.Module):
    """Self-attention over words, plus a finished bias.

    head_h = dropout(softmax(scaling * (x W_Q^h)(x W_K^h)^T + attn_bias[h])) (x W_V^h)
    Source: Ke, He and Liu 2021, Eqs. (8) and (10), https://arxiv.org/abs/2006.15595, where
    scaling is 1 / sqrt(2 * head_dim).

    It knows no position: with a constant bias, permuting the tokens permutes the output.

    Args:
        embed_dim (int): model width, D.
        num_heads (int): number of heads, H; divides ``embed_dim``.
        scaling (float): factor on the content scores (not on ``attn_bias``).
        dropout (float): dropout probability of the attention probabilities.
    Shape:
        x (B, L, D); attn_bias broadcastable to (B, H, L, L), rows are queries; key_padding_mask
        bool (B, L), True = padding, ignored -> (B, L, D).
    Dtype and device: those of the parameters; scores are summed and normalised in float32 at
        least.  A sequence that is padding throughout attends uniformly and stays finite.
    Raises:
        ValueError: if ``num_heads`` does not divide ``embed_dim``.
        TypeError: if ``key_padding_mask`` is not bool.
    """

    def __init__(self, embed_dim: int, num_heads: int, *, scaling: float, dropout: float = 0.0):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim ({embed_dim}) is not divisible by num_heads ({num_heads}); "
                "change --encoder-embed-dim or --encoder-attention-heads"
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.scaling = scaling
        self.dropout = dropout
        # W_Q, W_K, W_V stacked, as torch's own attention and the authors' checkpoints have them
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """BERT's initialisation: N(0, 0.02), biases zero."""
        nn.init.normal_(self.in_proj_weight, std=0.02)
        nn.init.normal_(self.out_proj.weight, std=0.02)
        nn.init.zeros_(self.in_proj_bias)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self,
        x: Tensor,
        attn_bias: Optional[Tensor] = None,
        key_padding_mask: Optional[Tensor] = None,
    ) -> Tensor:
        batch, seq_len, _ = x.shape
        qkv = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        # B x L x 3D -> 3 x B x H x L x K
        q, k, v = qkv.view(batch, seq_len, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)

        scores = torch.matmul(q * self.scaling, k.transpose(-2, -1))
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if attn_bias is not None:
            scores = scores + attn_bias
        if key_padding_mask is not None:
            if key_padding_mask.dtype != torch.bool:
                raise TypeError(
                    f"key_padding_mask is {key_padding_mask.dtype}, not bool; True marks padding"
                )
            # the lowest finite score, not -inf: exp() of it is zero beside any other score, and
            # a row of nothing else gives no NaN
            scores = scores.masked_fill(
                key_padding_mask[:, None, None, :], torch.finfo(scores.dtype).min
            )
        probs = torch.softmax(scores, dim=-1).to(v.dtype)
        probs = F.dropout(probs, self.dropout, self.training)
        # B x H x L x K -> B x L x D
        attended = torch.matmul(probs, v).transpose(1, 2).reshape(batch, seq_len, -1)
        return self.out_proj(attended)
