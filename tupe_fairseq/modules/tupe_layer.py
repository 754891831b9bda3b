"""A Transformer layer."""

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tupe_fairseq.attention.base import Attention
from tupe_fairseq.initialization import Linear
from tupe_fairseq.modules.tupe_multihead_attention import select

#: the names are fairseq's; no lambdas, which could not be pickled
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_accurate": functools.partial(F.gelu, approximate="tanh"),
    "linear": torch.positive,
    "relu": F.relu,
    "tanh": torch.tanh,
}


class TupeLayer(nn.Module):
    """Self-attention and a feed-forward network, each with a residual and a LayerNorm.

        x = LN(x + dropout(f(x))), or pre-LN (``normalize_before``) x = x + dropout(f(LN(x))),
        for f = attention, then f = fc2(activation(fc1(x)))
        Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; BERT's sizes and exact GELU

    Not a subclass of fairseq's layer, which turns a real-valued mask into -1e8 and, in 0.12.2, has
    a fused inference path that takes no bias at all. The names of submodules are fairseq's. With
    ``gradient_checkpointing`` only the layer's input is kept in training; the backward pass
    computes the rest again. ``encoder_attn`` is for decoders.

    Shape: as ``TupeMultiheadAttention``, (N, D) -> (N, D).
    """

    linear: type[nn.Linear] = Linear  # of the feed-forward network

    def __init__(self, config, self_attn: nn.Module, encoder_attn: nn.Module | None = None):
        super().__init__()
        self.config, self.gradient_checkpointing = config, False
        self.self_attn = self_attn
        self.self_attn_layer_norm = nn.LayerNorm(config.embed_dim)
        if encoder_attn is not None:
            self.encoder_attn = encoder_attn
            self.encoder_attn_layer_norm = nn.LayerNorm(config.embed_dim)
        self.fc1 = self.linear(config.embed_dim, config.ffn_embed_dim)
        self.fc2 = self.linear(config.ffn_embed_dim, config.embed_dim)
        self.final_layer_norm = nn.LayerNorm(config.embed_dim)

    def forward(
        self, x: Tensor, attention: Attention, output_tokens: Tensor | None = None
    ) -> Tensor:
        """The output for all tokens, or for ``output_tokens``."""
        return self.recomputed(self._forward, x, attention, output_tokens)

    def _forward(self, x: Tensor, attention: Attention, output_tokens: Tensor | None) -> Tensor:
        def attend(y: Tensor) -> Tensor:
            return self.self_attn(y, attention, output_tokens)

        x = self.add(self.self_attn_layer_norm, x, attend, output_tokens)
        return self.add(self.final_layer_norm, x, self.feed_forward)

    def recomputed(self, function: Callable[..., Tensor], *args) -> Tensor:
        """Call the function; with ``gradient_checkpointing``, again in the backward pass."""
        if self.gradient_checkpointing and self.training:
            return checkpoint(function, *args, use_reentrant=False)
        return function(*args)

    def add(
        self,
        layer_norm: nn.Module,
        x: Tensor,
        function: Callable[[Tensor], Tensor],
        tokens: Tensor | None = None,
    ) -> Tensor:
        """Add a sublayer's output for the tokens that it has one for."""
        pre_ln = self.config.normalize_before
        y = function(layer_norm(x) if pre_ln else x)
        x = select(x, tokens) + F.dropout(y, self.config.dropout, self.training)
        return x if pre_ln else layer_norm(x)

    def feed_forward(self, x: Tensor) -> Tensor:
        x = ACTIVATIONS[self.config.activation_fn](self.fc1(x))
        return self.fc2(F.dropout(x, self.config.activation_dropout, self.training))
