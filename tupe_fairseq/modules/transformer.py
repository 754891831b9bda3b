"""The Transformer: multi-head attention, a layer, and a stack of layers with their positions."""

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tupe_fairseq.attention.base import Attention, EagerAttention, attend_eagerly, scores_dtype
from tupe_fairseq.attention.sequences import Sequences
from tupe_fairseq.initialization import Linear
from tupe_fairseq.position.base import PositionEncoding
from tupe_fairseq.position.positions import is_at_cls

#: the names are fairseq's; no lambdas, which could not be pickled
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_accurate": functools.partial(F.gelu, approximate="tanh"),
    "linear": torch.positive,
    "relu": F.relu,
    "tanh": torch.tanh,
}


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


class EncoderStack(nn.Module):
    """A stack of layers over word embeddings, which contain no positions.

        x    = dropout(LN(embeddings + position.embed(n))), for all tokens except padding
        bias = position(n), once for all layers and sequences; n is the longest length
        x    = layer(x, attention with bias) for each layer; pre-LN: x = LN(x)
        Ke et al. 2021, section 3, https://arxiv.org/abs/2006.15595

    The layers share one position encoding (``position_bias``), or each has its own. A subclass
    chooses the implementation of attention.
    """

    attention_module = TupeMultiheadAttention

    def __init__(self, config, encoding: type[PositionEncoding]):
        super().__init__()
        self.config, self.encoding = config, encoding
        self.layernorm_embedding = nn.LayerNorm(config.embed_dim)
        self.position_bias = None if encoding.per_layer else encoding.from_config(config)
        layers = []
        for _ in range(config.num_layers):
            own = encoding.from_config(config) if encoding.per_layer else None
            scaling = encoding.scaling_of(config.embed_dim // config.num_heads)
            layers.append(TupeLayer(config, self.attention_module(config, scaling, own)))
        self.layers = nn.ModuleList(layers)
        self.layer_norm = nn.LayerNorm(config.embed_dim) if config.normalize_before else None

    @abstractmethod
    def attention_class(self, sequences: Sequences, x: Tensor) -> type[Attention]:
        """The implementation of attention for a forward pass."""

    def least_padding(self, x: Tensor) -> float:
        """The share of padding from which on it is left out."""
        # on a GPU, unpacking the tokens for attention costs about an eighth of a layer
        return 1 / 8 if x.is_cuda else 0.0

    @property
    def position(self) -> PositionEncoding | None:
        """The position encoding that all layers share; None if each layer has its own."""
        return self.position_bias

    def position_encodings(self) -> dict[int | None, PositionEncoding]:
        """{None: the shared position encoding}, or {layer: its position encoding}."""
        if self.position is not None:
            return {None: self.position}
        layers = cast(list[TupeLayer], self.layers)
        return {n: cast(PositionEncoding, x.self_attn.position) for n, x in enumerate(layers)}

    def encode(
        self,
        embeddings: Tensor,
        sequences: Sequences,
        return_all_hiddens: bool = False,
        output_tokens: Tensor | None = None,
        weights: list[Tensor] | None = None,
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """The hidden states (B, L, D), or of the packed ``output_tokens`` (n) alone (n, D).

        With ``return_all_hiddens`` also the input and the output of each layer, with pre-LN before
        the final LayerNorm. A list ``weights`` gets the attention probabilities (B, H, L, L).
        """
        config, whole = self.config, sequences.whole
        attention, x = self._attention(sequences, embeddings, weights), whole.pack(embeddings)
        added = None if self.position is None else self.position.embed(sequences.longest)
        if added is not None:
            added = F.embedding(sequences.positions, added.to(x))
            x = x + added
        x = F.dropout(self.layernorm_embedding(x), config.dropout, self.training)
        hiddens = [whole.unpack(x)] if return_all_hiddens else []
        for number, layer in enumerate(self.layers):
            if number and added is not None and config.position_each_layer:
                x = x + added
            x = layer(x, attention, output_tokens if number == len(self.layers) - 1 else None)
            if return_all_hiddens:
                hiddens.append(whole.unpack(x))
        x = x if self.layer_norm is None else self.layer_norm(x)
        x = whole.unpack(x) if output_tokens is None else x
        return (x, hiddens) if return_all_hiddens else x

    def _attention(
        self, sequences: Sequences, x: Tensor, weights: list[Tensor] | None
    ) -> Attention:
        """What all layers need besides x."""
        # what does not depend on words is the same in each layer
        position = next(iter(self.position_encodings().values()))
        dtype, bias, precomputed = scores_dtype(x), None, None
        if position.uses("content_bias"):  # it is added to the masks
            dtype = torch.promote_types(dtype, torch.float32)
        if position.uses("precompute"):
            at = sequences.positions[:, None, None]
            precomputed = position.precompute(at, sequences.longest)
        if self.position is not None or self.config.one_way_heads:
            bias = _bias(position, sequences.longest, x.device)
        options = dtype, bias, self.position, precomputed
        if weights is None:
            return self.attention_class(sequences, x)(sequences, *options)
        attention = EagerAttention(sequences, *options)
        attention.attend_batch = functools.partial(attend_eagerly, weights=weights)
        return attention


def _bias(position: PositionEncoding, length: int, device: torch.device) -> Tensor | None:
    """The position bias of all layers: (H, length, length)."""
    bias = position(length)  # a call, so that FSDP's hooks run
    if bias is None:
        return None
    expected = position.num_heads, length, length
    if bias.shape != expected:
        kind = type(position).__name__
        raise ValueError(f"bias of {kind} is {tuple(bias.shape)}; expected {expected}")
    bias = bias.to(device)  # without parameters, an encoding may not know it
    if bias.requires_grad and position.cls_row_is_constant:
        # a constant row cancels in the softmax: its gradient would be rounding noise
        rows = is_at_cls(length, device)[:, None]
        bias.register_hook(lambda grad: grad.masked_fill(rows, 0))
    return bias
