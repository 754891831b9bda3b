"""A decoder's layer: attention over its own past and over an encoder's output, with a cache."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from tupe_fairseq.attention.base import attend_eagerly, attend_fused
from tupe_fairseq.modules.transformer import TupeLayer, TupeMultiheadAttention
from tupe_fairseq.position.base import PositionEncoding
from tupe_fairseq.position.positions import Positions, as_tensor


def is_eager(x: Tensor) -> bool:
    """Whether to use eager attention: torch's CPU kernel has no gradient for the mask."""
    return x.device.type == "cpu" and torch.is_grad_enabled()


class Context(NamedTuple):
    """What the layers of a decoder share for attention to their past, or to an encoder's output.

    ``mask`` is broadcastable to (B, H, Tq, Tk); ``positions`` are those of the queries and of all
    keys; ``is_causal`` hides later keys, because the mask does not.
    """

    mask: Tensor | None
    position: PositionEncoding | None = None
    positions: tuple[Positions, Positions] = (0, 0)
    precomputed: tuple[Tensor, ...] = ()
    is_causal: bool = False


class DecoderAttention(TupeMultiheadAttention):
    """Attention of a decoder over its own past, or over an encoder's output.

        out_proj(dropout(softmax(scaling * q k^T + mask)) v)

    The layer's ``cache``, if there is one, keeps keys and values: those of the past, to which each
    step adds one, and those of the encoder. Names and initial values are fairseq's.

    Args:
        key_dim (int): the width of the keys' input.
    Shape: x (B, Tq, D), source (B, Tk, key_dim) -> as x.
    """

    def __init__(
        self, config, scaling: float, position: PositionEncoding | None = None, key_dim: int = 0
    ):
        self.key_dim = key_dim or config.embed_dim
        super().__init__(config, scaling, position)

    def make_projections(self, dim: int) -> None:
        self.register_module("position", None)  # first, as optimizer states in checkpoints have it
        self.k_proj, self.v_proj = nn.Linear(self.key_dim, dim), nn.Linear(self.key_dim, dim)
        self.q_proj, self.out_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        for proj in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(proj.weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        context: Context,
        source: Tensor | None = None,
        cache: dict[str, Tensor] | None = None,
    ) -> Tensor:
        """Attend from each token to the source, or if that is None, to the tokens up to itself."""
        position, precomputed = self.of_layer(context)
        positions, mask = context.positions, context.mask
        names = ("k", "v") if source is None else ("source_k", "source_v")
        kept = [cache[name] for name in names] if cache and names[0] in cache else None
        q = self._heads(self.q_proj, x)
        if source is not None and kept:
            k, v = kept
        else:
            k, v = (
                self._heads(f, x if source is None else source) for f in (self.k_proj, self.v_proj)
            )
        if position is not None and position.uses("transform"):
            of_queries = as_tensor(positions[0], x.device).unsqueeze(-1)
            q = position.transform(q, of_queries, *precomputed)
            k = position.transform_keys(k, of_queries, *precomputed)
        if source is None and kept:
            k, v = (torch.cat(pair, dim=1) for pair in zip(kept, (k, v)))
        if position is not None and position.uses("content_bias"):
            heads_first = q.transpose(1, 2), k.transpose(1, 2)
            bias = position.content_bias(*heads_first, *positions, *precomputed)
            assert bias is not None
            mask = bias if mask is None else mask + bias
        if cache is not None:
            cache.update(zip(names, (k, v)))
        scaling, dropout = self.scaling, self.dropout if self.training else 0.0
        if is_eager(x):
            out = attend_eagerly(q, k, v, mask, scaling=scaling, dropout=dropout)
        else:
            causal = context.is_causal
            out = attend_fused(q, k, v, mask, scaling=scaling, dropout=dropout, is_causal=causal)
        return self.out_proj(out.flatten(-2))

    def queries_and_keys(self, x: Tensor) -> Tensor:
        return torch.stack([self._heads(proj, x) for proj in (self.q_proj, self.k_proj)], dim=1)

    def _heads(self, proj: nn.Module, x: Tensor) -> Tensor:
        return proj(x).unflatten(-1, (self.num_heads, -1))


class TupeDecoderLayer(TupeLayer):
    """A layer with :class:`DecoderAttention`, and fairseq's initial values. (B, T, D) -> (B, T, D).

    Args:
        source_dim (int): the width of the encoder's output; 0 if there is no encoder.
        cross_scaling (float): factor of the content scores of cross-attention.
    """

    linear = nn.Linear

    def __init__(self, config, encoding, source_dim: int, cross_scaling: float):
        own = encoding.from_config(config, causal=True) if encoding.per_layer else None
        scaling = encoding.scaling_of(config.embed_dim // config.num_heads)
        self_attn, cross = DecoderAttention(config, scaling, own), None
        if source_dim:
            cross = DecoderAttention(config, cross_scaling, key_dim=source_dim)
        super().__init__(config, self_attn, cross)

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        past: Context,
        source: Tensor | None,
        source_context: Context,
        cache: dict[str, Tensor] | None,
    ) -> Tensor:
        return self.recomputed(self._decode, x, past, source, source_context, cache)

    def _decode(self, x, past, source, source_context, cache):
        x = self.add(self.self_attn_layer_norm, x, lambda y: self.self_attn(y, past, cache=cache))
        if source is not None:
            x = self.add(
                self.encoder_attn_layer_norm,
                x,
                lambda y: self.encoder_attn(y, source_context, source, cache),
            )
        return self.add(self.final_layer_norm, x, self.feed_forward)
