"""A Transformer encoder layer that passes a position bias to its attention."""

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe_fairseq.initialization import Linear
from tupe_fairseq.matrices import mark_matrices
from tupe_fairseq.modules.tupe_multihead_attention import TupeMultiheadAttention, select
from tupe_fairseq.options import TupeConfig
from tupe_fairseq.position import PositionEncoding

#: the names are fairseq's
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_accurate": functools.partial(F.gelu, approximate="tanh"),
    "linear": lambda x: x,
    "relu": F.relu,
    "tanh": torch.tanh,
}


class TupeEncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each with a residual and a LayerNorm.

        x = LN(x + dropout(f(x))), or pre-LN (``normalize_before``) x = x + dropout(f(LN(x))),
        for f = attention, then f = fc2(activation(fc1(x)))
        Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; BERT's sizes and exact GELU

    Not a subclass of fairseq's layer, which turns a real-valued mask into -1e8 and, in 0.12.2, has
    a fused inference path that takes no bias at all. The names of submodules are fairseq's.

    Shape: as :class:`TupeMultiheadAttention`, (N, D) -> (N, D).
    """

    def __init__(self, config: TupeConfig, scaling: float, position: PositionEncoding | None):
        super().__init__()
        self.config = config
        self.self_attn = TupeMultiheadAttention(config, scaling, position)
        self.self_attn_layer_norm = nn.LayerNorm(config.embed_dim)
        self.fc1 = Linear(config.embed_dim, config.ffn_embed_dim)
        self.fc2 = Linear(config.ffn_embed_dim, config.embed_dim)
        mark_matrices(self.fc1.weight, self.fc2.weight)
        self.final_layer_norm = nn.LayerNorm(config.embed_dim)

    def forward(
        self,
        x: Tensor,
        precomputed: Tensor | None,
        *masks: Tensor | None,
        output_tokens: Tensor | None = None,
        **attention,
    ) -> Tensor:
        """The output of the layer; arguments: see :meth:`TupeMultiheadAttention.forward`."""
        # Tensors are separate arguments: fairseq's checkpoint_wrapper does not detach them inside
        # other objects, so a second layer's backward pass would run through their graph again.
        config, pre_ln = self.config, self.config.normalize_before
        y = self.self_attn_layer_norm(x) if pre_ln else x
        y = self.self_attn(y, precomputed, *masks, output_tokens=output_tokens, **attention)
        x = select(x, output_tokens) + F.dropout(y, config.dropout, self.training)
        x = x if pre_ln else self.self_attn_layer_norm(x)
        y = self.fc1(self.final_layer_norm(x) if pre_ln else x)
        y = ACTIVATIONS[config.activation_fn](y)
        y = self.fc2(F.dropout(y, config.activation_dropout, self.training))
        x = x + F.dropout(y, config.dropout, self.training)
        return x if pre_ln else self.final_layer_norm(x)
