"""The encoder: position encoding and layers, from word embeddings to hidden states."""

import functools
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding

from tupe_fairseq.attention import Sequences, check, choose, eager, is_fast_in_triton, scores_dtype
from tupe_fairseq.modules.record import RecordsOptions
from tupe_fairseq.modules.tupe_encoder_layer import TupeEncoderLayer
from tupe_fairseq.options import TupeConfig
from tupe_fairseq.position import PositionEncoding, get_position_encoding, position_of
from tupe_fairseq.position.positions import is_at_cls


class TupeEncoder(RecordsOptions):
    """A stack of layers over word embeddings, which contain no positions.

        x    = dropout(LN(embeddings + position.embed(n))), for all tokens except padding
        bias = position(n), once for all layers and sequences; n is the longest length
        x    = layer(x, bias) for each layer; pre-LN: x = LN(x)
        Ke et al. 2021, section 3, https://arxiv.org/abs/2006.15595

    The layers share one position encoding (``position_bias``), or each has its own. The state dict
    records the options (``position_version``) and does not load into an encoder with other options.

    ``wrap_layer`` is applied to each layer, for activation checkpointing or sharding.
    """

    def __init__(
        self,
        config: TupeConfig,
        *,
        wrap_layer: Callable[[nn.Module], nn.Module] = lambda layer: layer,
    ):
        super().__init__()
        self.config = config
        self.encoding = get_position_encoding(config.position_encoding)
        self._scores: dict[str, Any] = {
            "head_dim": self.encoding.widening * config.embed_dim // config.num_heads,
            "has_content_bias": self.encoding.uses("content_bias"),
        }
        check(config.attn_impl, **self._scores)
        self.layernorm_embedding = nn.LayerNorm(config.embed_dim)
        self.position_bias = None if self.encoding.per_layer else position_of(config)
        layers = []
        for _ in range(config.num_layers):
            position = self.position_bias or position_of(config)
            own = position if self.encoding.per_layer else None
            layers.append(wrap_layer(TupeEncoderLayer(config, position.scaling, own)))
        self.layers = nn.ModuleList(layers)
        self.layer_norm = nn.LayerNorm(config.embed_dim) if config.normalize_before else None
        self.register_record()

    @property
    def position(self) -> PositionEncoding | None:
        """The position encoding that all layers share; None if each layer has its own."""
        return self.position_bias

    def position_encodings(self) -> dict[int | None, PositionEncoding]:
        """{None: the shared position encoding}, or {layer: its position encoding}."""
        if self.position is not None:
            return {None: self.position}
        layers = cast(list[TupeEncoderLayer], self.layers)
        return {n: cast(PositionEncoding, x.self_attn.position) for n, x in enumerate(layers)}

    def forward(
        self,
        embeddings: Tensor,
        key_padding_mask: Tensor | None = None,
        return_all_hiddens: bool = False,
        document_starts: Tensor | None = None,
        output_tokens: Tensor | None = None,
        lengths: list[int] | None = None,
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """The hidden states of a batch. [CLS] is at index 0; pad on the right.

        Args:
            return_all_hiddens (bool): also return the embedding output and the output of each
                layer; with pre-LN these are before the final LayerNorm.
            document_starts: True = the first token of a document, which is its [CLS]; each document
                is encoded as if it were alone.
            output_tokens: indices (n,), among the B * L, of the tokens whose hidden states are
                needed -> (n, D); the last layer skips the others. Not with return_all_hiddens.
            lengths: the number of tokens of each row, instead of key_padding_mask; saves waiting
                for a GPU.
        Shape: embeddings (B, L, D); key_padding_mask bool (B, L), True = padding;
        document_starts bool (B, L) -> (B, L, D), or a pair of it and a list of such tensors. Values
        at padding are finite but undefined.
        """
        if return_all_hiddens and output_tokens is not None:
            raise ValueError("return_all_hiddens returns all tokens; leave output_tokens out")
        if output_tokens is not None and output_tokens.dtype != torch.long:
            raise ValueError("output_tokens must be indices: use mask.flatten().nonzero()[:, 0]")
        sequences = self._sequences(embeddings, key_padding_mask, document_starts, lengths)
        attention, whole = self._choose(sequences, embeddings), sequences.whole
        hiddens: list[Tensor] = []
        keep = hiddens.append if return_all_hiddens else lambda x: None
        if output_tokens is not None:
            output_tokens = whole.pack_indices(output_tokens)
            return self._run(embeddings, sequences, attention, keep, output_tokens)
        x = whole.unpack(self._run(embeddings, sequences, attention, keep))
        return (x, [whole.unpack(h) for h in hiddens]) if return_all_hiddens else x

    @torch.no_grad()
    def attention_weights(
        self, embeddings: Tensor, key_padding_mask: Tensor | None = None
    ) -> list[Tensor]:
        """The attention probabilities of each layer: (B, H, L, L), 0 at padded keys."""
        if self.training:
            raise ValueError("attention_weights are computed without dropout; call eval() first")
        weights: list[Tensor] = []
        attend = functools.partial(eager.attend, weights=weights)
        attention = SimpleNamespace(make_masks=eager.make_masks, attend=attend)
        sequences = self._sequences(embeddings, key_padding_mask, least_padding=2.0)
        self._run(embeddings, sequences, attention, lambda x: None)
        return weights

    def _sequences(
        self, embeddings, key_padding_mask, document_starts=None, lengths=None, least_padding=None
    ) -> Sequences:
        if embeddings.dim() != 3 or embeddings.size(1) == 0:
            shape = tuple(embeddings.shape)
            raise ValueError(f"embeddings are {shape}; expected (B, L, D), where L is at least 1")
        batch, seq_len, _ = embeddings.shape
        masks = {"key_padding_mask": key_padding_mask, "document_starts": document_starts}
        for name, x in masks.items():
            if x is not None and (x.dtype != torch.bool or x.shape != (batch, seq_len)):
                raise ValueError(
                    f"{name} is {x.dtype} {tuple(x.shape)}, and the embeddings are "
                    f"{tuple(embeddings.shape)}; expected bool (B, L) and (B, L, D)"
                )
        if lengths is not None:
            if key_padding_mask is not None:
                raise ValueError("lengths replace key_padding_mask; pass only one of them")
            if len(lengths) != batch or not {*lengths} <= {*range(seq_len + 1)}:
                raise ValueError(f"lengths are {lengths}; expected {batch} values, 0 to {seq_len}")
        if least_padding is None:
            # on a GPU, unpacking the tokens for attention costs about an eighth of a layer
            name, of_scores = self.config.attn_impl, self._scores.values()
            is_fast = is_fast_in_triton(embeddings.device, scores_dtype(embeddings), *of_scores)
            takes_packed = not embeddings.is_cuda or name == "triton" or name == "auto" and is_fast
            least_padding = 0.0 if takes_packed else 1 / 8
        options = {"row_lengths": lengths, "least_padding": least_padding}
        return Sequences((batch, seq_len), embeddings.device, *masks.values(), **options)

    def attention_name(self, seq_len: int) -> str:
        """The attention implementation for sequences of this length, in the current mode."""
        weight = self.layernorm_embedding.weight
        chosen = self._choose(Sequences((1, seq_len), weight.device), weight)
        return chosen.__name__.rpartition(".")[2]

    def _choose(self, sequences: Sequences, x: Tensor) -> ModuleType:
        """The attention implementation for this forward pass."""
        config = self.config
        parameters = () if self.position is None else self.position.parameters()
        has_gradient = self._scores["has_content_bias"] or any(p.requires_grad for p in parameters)
        return choose(
            config.attn_impl,
            sequences,
            scores_dtype(x),
            num_heads=config.num_heads,
            **self._scores,
            is_trained=(self.training and config.attention_dropout > 0)
            or (torch.is_grad_enabled() and has_gradient),
        )

    def _run(
        self,
        embeddings: Tensor,
        sequences: Sequences,
        attention: ModuleType | SimpleNamespace,
        keep: Callable[[Tensor], None],
        output_tokens: Tensor | None = None,
    ) -> Tensor:
        """The output, (N, D) or (n, D). Calls ``keep`` with the first input and all outputs."""
        config, position, length = self.config, self.position, sequences.longest
        x = sequences.whole.pack(embeddings)
        added = None if position is None else position.embed(length)
        if added is not None:
            added = embedding(sequences.positions, added.to(x))
            x = x + added
        x = dropout(self.layernorm_embedding(x), config.dropout, self.training)
        dtype = scores_dtype(x)
        if self.encoding.uses("content_bias"):  # it is added to the masks
            dtype = torch.promote_types(dtype, torch.float32)
        masks = attention.make_masks(self._bias(length, x.device), sequences, dtype)
        shared = self._precompute(sequences), *masks
        options = {"sequences": sequences, "attend": attention.attend, "position": position}
        keep(x)
        for number, layer in enumerate(self.layers):
            if number and added is not None and config.position_each_layer:
                x = x + added
            only = output_tokens if number == len(self.layers) - 1 else None
            x = layer(x, *shared, output_tokens=only, **options)
            keep(x)
        return x if self.layer_norm is None else self.layer_norm(x)

    def _precompute(self, sequences: Sequences) -> Tensor | None:
        """What all layers need to know of positions besides the bias."""
        if not self.encoding.uses("precompute"):
            return None
        position = next(x for x in self.modules() if isinstance(x, PositionEncoding))
        return position.precompute(sequences.positions[:, None, None], sequences.longest)

    def _bias(self, length: int, device: torch.device) -> Tensor | None:
        """The position bias of all layers: (H, length, length)."""
        position = self.position
        bias = None if position is None else position(length)  # a call, so that FSDP's hooks run
        if position is None or bias is None:
            return None
        bias = bias.to(device)  # without parameters, an encoding may not know it
        if bias.requires_grad and position.cls_row_is_constant:
            # a constant row cancels in the softmax: its gradient would be rounding noise
            rows = is_at_cls(length, device)[:, None]
            bias.register_hook(lambda grad: grad.masked_fill(rows, 0))
        return bias
