"""One Transformer encoder layer that hands a real-valued bias to its attention."""

from typing import Optional, Union

from torch import Tensor, nn

from tupe_fairseq.attention import Bias, Padding
from tupe_fairseq.modules.activations import get_activation_fn
from tupe_fairseq.modules.dropout import dropout
from tupe_fairseq.modules.tupe_multihead_attention import TupeMultiheadAttention


class TupeEncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each with a residual and a LayerNorm.

    post-LN: x = LN(x + dropout(f(x))); pre-LN (``normalize_before``): x = x + dropout(f(LN(x))),
    for f = attention, then f = fc2(activation(fc1(.))).
    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; BERT's sizes and exact GELU.

    Not a subclass of fairseq's layer: that one turns a real-valued attention mask into -1e8, and
    in 0.12.2 has a fused inference path that takes no bias at all.  The names of the parts are
    fairseq's.

    Args:
        embed_dim (int): model width, D.
        num_heads (int): number of heads; divides ``embed_dim``.
        ffn_embed_dim (int): inner width of the feed-forward network.
        scaling (float): factor on the content scores of the attention.
        dropout (float): dropout probability of both residual branches.
        attention_dropout (float): dropout probability of the attention probabilities.
        activation_dropout (float): dropout probability after the activation.
        activation_fn (str): name of the activation function.
        normalize_before (bool): pre-LN instead of post-LN.
        attn_impl, position: see :class:`TupeMultiheadAttention`.
    Shape:
        as :class:`TupeMultiheadAttention`: (B, L, D) -> (B, L, D), or (N, D) -> (N, D).
    Dtype and device: those of the parameters.
    Raises:
        ValueError: as :class:`TupeMultiheadAttention` and :func:`get_activation_fn`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        ffn_embed_dim: int,
        *,
        scaling: float,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        activation_dropout: float = 0.0,
        activation_fn: str = "gelu",
        normalize_before: bool = False,
        attn_impl: str = "auto",
        position: Optional[nn.Module] = None,
    ):
        super().__init__()
        self.dropout = dropout
        self.activation_dropout = activation_dropout
        self.activation_fn = get_activation_fn(activation_fn)
        self.normalize_before = normalize_before
        self.self_attn = TupeMultiheadAttention(
            embed_dim,
            num_heads,
            scaling=scaling,
            dropout=attention_dropout,
            attn_impl=attn_impl,
            position=position,
        )
        self.self_attn_layer_norm = nn.LayerNorm(embed_dim)
        self.fc1 = nn.Linear(embed_dim, ffn_embed_dim)
        self.fc2 = nn.Linear(ffn_embed_dim, embed_dim)
        self.final_layer_norm = nn.LayerNorm(embed_dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """BERT's initialisation of the feed-forward network: N(0, 0.02), biases zero."""
        for linear in (self.fc1, self.fc2):
            nn.init.normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)

    # bias_values and for_layers are arguments of their own: fairseq's checkpoint_wrapper detaches
    # only tensors among the direct arguments.  Inside another object they would keep their graph,
    # and the second layer's backward pass would run through it again.
    def forward(
        self,
        x: Tensor,
        attn_bias: Union[None, Tensor, Bias] = None,
        key_padding_mask: Union[None, Tensor, Padding] = None,
        position: Optional[nn.Module] = None,
        for_layers: Optional[Tensor] = None,
        bias_values: Optional[Tensor] = None,
    ) -> Tensor:
        """Attention, then the feed-forward network.

        Args, Raises: as :meth:`TupeMultiheadAttention.forward`.
        Shape:
            x (B, L, D), key_padding_mask bool (B, L) -> (B, L, D); with packed ``Padding``
            x (N, D) -> (N, D).
        """
        return self.feed_forward(
            self.attend(x, attn_bias, key_padding_mask, position, for_layers, bias_values)
        )

    def attend(self, x: Tensor, *args, **kwargs) -> Tensor:
        """The first half of :meth:`forward`, with the same arguments."""
        residual = x
        if self.normalize_before:
            x = self.self_attn_layer_norm(x)
        x = self.self_attn(x, *args, **kwargs)
        x = residual + dropout(x, self.dropout, self.training)
        if not self.normalize_before:
            x = self.self_attn_layer_norm(x)
        return x

    def feed_forward(self, x: Tensor) -> Tensor:
        """The second half, from what :meth:`attend` gives: each token by itself, (..., D)."""
        residual = x
        if self.normalize_before:
            x = self.final_layer_norm(x)
        x = self.activation_fn(self.fc1(x))
        x = self.fc2(dropout(x, self.activation_dropout, self.training))
        x = residual + dropout(x, self.dropout, self.training)
        if not self.normalize_before:
            x = self.final_layer_norm(x)
        return x

    def attention_weights(self, x: Tensor, *args, **kwargs) -> Tensor:
        """As :meth:`TupeMultiheadAttention.attention_weights`, from the layer's input."""
        if self.normalize_before:
            x = self.self_attn_layer_norm(x)
        return self.self_attn.attention_weights(x, *args, **kwargs)
