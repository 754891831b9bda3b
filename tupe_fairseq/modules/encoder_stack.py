"""Position encoding and layers, from word embeddings to hidden states."""

from abc import abstractmethod
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding

from tupe_fairseq.attention.base import Attention, scores_dtype
from tupe_fairseq.attention.eager import EagerAttention
from tupe_fairseq.attention.sequences import Sequences
from tupe_fairseq.modules.tupe_layer import TupeLayer
from tupe_fairseq.modules.tupe_multihead_attention import TupeMultiheadAttention
from tupe_fairseq.position.base import PositionEncoding
from tupe_fairseq.position.positions import is_at_cls


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
        attention = self._attention(sequences, embeddings, weights)
        hiddens: list[Tensor] = []
        keep = hiddens.append if return_all_hiddens else lambda x: None
        x = self._run(embeddings, attention, keep, output_tokens)
        unpack = sequences.whole.unpack
        x = unpack(x) if output_tokens is None else x
        return (x, [unpack(h) for h in hiddens]) if return_all_hiddens else x

    def _attention(
        self, sequences: Sequences, x: Tensor, weights: list[Tensor] | None
    ) -> Attention:
        """What all layers need besides x."""
        dtype, precomputed = scores_dtype(x), None
        if self.encoding.uses("content_bias"):  # it is added to the masks
            dtype = torch.promote_types(dtype, torch.float32)
        if self.encoding.uses("precompute"):
            position = next(iter(self.position_encodings().values()))
            at = sequences.positions[:, None, None]
            precomputed = position.precompute(at, sequences.longest)
        options = dtype, self._bias(sequences.longest, x.device), self.position, precomputed
        if weights is None:
            return self.attention_class(sequences, x)(sequences, *options)
        attention = EagerAttention(sequences, *options)
        attention.weights = weights
        return attention

    def _run(
        self,
        embeddings: Tensor,
        attention: Attention,
        keep: Callable[[Tensor], None],
        output_tokens: Tensor | None = None,
    ) -> Tensor:
        """The output, (N, D) or (n, D). Calls ``keep`` with the first input and all outputs."""
        config, sequences = self.config, attention.sequences
        x = sequences.whole.pack(embeddings)
        added = None if self.position is None else self.position.embed(sequences.longest)
        if added is not None:
            added = embedding(sequences.positions, added.to(x))
            x = x + added
        x = dropout(self.layernorm_embedding(x), config.dropout, self.training)
        keep(x)
        for number, layer in enumerate(self.layers):
            if number and added is not None and config.position_each_layer:
                x = x + added
            x = layer(x, attention, output_tokens if number == len(self.layers) - 1 else None)
            keep(x)
        return x if self.layer_norm is None else self.layer_norm(x)

    def _bias(self, length: int, device: torch.device) -> Tensor | None:
        """The position bias of all layers: (H, length, length)."""
        position = self.position
        if position is None and self.config.one_way_heads:  # the same in each layer
            position = next(iter(self.position_encodings().values()))
        bias = None if position is None else position(length)  # a call, so that FSDP's hooks run
        if position is None or bias is None:
            return None
        bias = bias.to(device)  # without parameters, an encoding may not know it
        if bias.requires_grad and position.cls_row_is_constant:
            # a constant row cancels in the softmax: its gradient would be rounding noise
            rows = is_at_cls(length, device)[:, None]
            bias.register_hook(lambda grad: grad.masked_fill(rows, 0))
        return bias
