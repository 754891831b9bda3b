"""The encoder: position encoding and layers, from word embeddings to hidden states."""

import functools
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from tupe_fairseq.attention import Padding, choose, chunked, eager, make_mask, sdpa
from tupe_fairseq.modules import TupeEncoderLayer
from tupe_fairseq.modules.record import RECORD, RecordsOptions, options_record
from tupe_fairseq.modules.tupe_multihead_attention import select
from tupe_fairseq.options import TupeConfig
from tupe_fairseq.position import (
    PositionEncoding,
    build_position_encoding,
    get_position_encoding,
)
from tupe_fairseq.position.positions import Positions, is_at_cls

# made once, when needed: it imports the compiler, which takes seconds
uncompiled = functools.cache(torch.compiler.disable)


class TupeEncoder(RecordsOptions):
    """A stack of layers over word embeddings, which hold no position.

        x    = zero_at_padding(dropout(LN(position.forward_input(embeddings))))
        mask = position.position_bias(L), once for all layers and the whole batch
        x    = layer(x, mask) for each layer; pre-LN: x = LN(x)
        Ke et al. 2021, section 3, https://arxiv.org/abs/2006.15595

    The layers share one position encoding (``position_bias``), or each has its own. The state dict
    records the options (``position_version``) and is refused by an encoder with others.

    Args:
        config (TupeConfig): the options.
        wrap_layer (callable): applied to each layer; for activation checkpointing or sharding.
        layer_list (callable): makes the ``nn.ModuleList``; one that skips layers gives LayerDrop.
    """

    def __init__(
        self,
        config: TupeConfig,
        *,
        wrap_layer: Callable[[nn.Module], nn.Module] = lambda layer: layer,
        layer_list: Callable[[list[nn.Module]], nn.ModuleList] = nn.ModuleList,
    ):
        super().__init__()
        self.config = config
        self.encoding = get_position_encoding(config.position_encoding)
        if config.position_each_layer and not self.encoding.uses("embed"):
            raise ValueError(
                f"position encoding {config.position_encoding!r} adds nothing to the input; "
                "drop --position-each-layer"
            )
        self.layernorm_embedding = nn.LayerNorm(config.embed_dim)
        self.position_bias = None if self.encoding.per_layer else self._build_position()
        layers = [wrap_layer(self._build_layer()) for _ in range(config.num_layers)]
        self.layers = layer_list(layers)
        self.layer_norm = nn.LayerNorm(config.embed_dim) if config.normalize_before else None
        self.register_record()

    def _build_position(self) -> PositionEncoding:
        config = self.config
        return build_position_encoding(
            config.position_encoding,
            embed_dim=config.embed_dim,
            num_heads=config.num_heads,
            max_positions=config.max_positions,
            **config.encoding_options,
        )

    def _build_layer(self) -> TupeEncoderLayer:
        config = self.config
        position = self.position_bias or self._build_position()
        layer = TupeEncoderLayer(
            config.embed_dim,
            config.num_heads,
            config.ffn_embed_dim,
            scaling=position.scaling,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            activation_dropout=config.activation_dropout,
            activation_fn=config.activation_fn,
            normalize_before=config.normalize_before,
            position=None if position is self.position_bias else position,
        )
        if config.compile_layers:
            layer.compile(dynamic=True)
        return layer

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
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """The hidden states of a batch. [CLS] is at index 0; pad on the right.

        Args:
            return_all_hiddens (bool): also the embedding output and the output of each layer, in
                pre-LN before the final LayerNorm, without those that LayerDrop leaves out.
            document_starts: True = the first token, and the [CLS], of a document; each document is
                encoded as if it were alone.
            output_tokens: indices (n,), among the B * L, of the only tokens whose hidden states are
                needed -> (n, D); the last layer skips the others. Not with return_all_hiddens.
        Shape: embeddings (B, L, D); key_padding_mask bool (B, L), True = padding;
        document_starts bool (B, L) -> (B, L, D), and a list of such. At padding all are finite and
        undefined; zero with ``config.unpad`` or ``document_starts``, if padding is on the right.
        """
        config = self.config
        padding = self._padding(embeddings, key_padding_mask, document_starts)
        positions = embeddings.size(1) if padding is None else padding.positions
        name = self._choose(embeddings, padding)
        # packed tokens travel through the layers without the padding; chunked takes no others
        packs = config.unpad or document_starts is not None or name == "chunked"
        packed = padding if padding is not None and padding.is_on_right and packs else None

        x, added = embeddings, self._added(embeddings, positions)
        if added is not None:
            x = x + added
        if packed is not None:
            x = packed.pack(x)
            added = None if added is None else packed.pack(added)
        x = dropout(self.layernorm_embedding(x), config.dropout, self.training)
        if padding is not None and packed is None:
            x = x.masked_fill(padding.mask.unsqueeze(-1), 0)

        if name == "chunked":
            mask, attention = self._chunked(embeddings, packed)
        else:
            mask = make_mask(self._bias(positions, x.device), padding, self._mask_dtype(name, x))
            attend = eager.attend if name == "eager" else sdpa.attend
            attention = {"attend": attend, "positions": positions, "padding": packed}
        if output_tokens is not None and packed is not None:
            output_tokens = packed.packed_indices(output_tokens)
        hiddens, layers = [x], list(self.layers)
        for number, layer in enumerate(layers):
            if number and added is not None and config.position_each_layer:
                x = x + added
            only = output_tokens if number == len(layers) - 1 else None
            x = layer(x, mask, position=self.position, output_tokens=only, **attention)
            if return_all_hiddens:
                hiddens.append(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        if output_tokens is not None:
            return x if layers else select(x, output_tokens)  # LayerDrop may skip them all
        if packed is not None:
            x, *hiddens = (packed.unpack(h) for h in (x, *hiddens))
        return (x, hiddens) if return_all_hiddens else x

    @torch.no_grad()
    def attention_weights(
        self, embeddings: Tensor, key_padding_mask: Tensor | None = None
    ) -> list[Tensor]:
        """The attention probabilities of each layer: (B, H, L, L), 0 at padded keys."""
        if self.training:
            raise ValueError("attention_weights are those without dropout; call eval() first")
        _, hiddens = self(embeddings, key_padding_mask, return_all_hiddens=True)
        seq_len = embeddings.size(1)
        padding = self._padding(embeddings, key_padding_mask, None)
        bias = self._bias(seq_len, embeddings.device)
        mask = make_mask(bias, padding, self._mask_dtype("eager", embeddings))
        added = self._added(embeddings, seq_len) if self.config.position_each_layer else None
        layers = cast(list[TupeEncoderLayer], self.layers)
        return [
            layer.attention_weights(
                x if n == 0 or added is None else x + added, mask, self.position
            )
            for n, (layer, x) in enumerate(zip(layers, hiddens, strict=False))
        ]

    def _padding(self, embeddings, key_padding_mask, document_starts) -> Padding | None:
        """The padding and the documents of a batch, None if there are neither."""
        if embeddings.size(1) == 0:
            raise ValueError(
                f"embeddings are {tuple(embeddings.shape)}: a sequence has at least one token"
            )
        masks = {"key_padding_mask": key_padding_mask, "document_starts": document_starts}
        for name, x in masks.items():
            if x is not None and (x.dtype != torch.bool or x.shape != embeddings.shape[:2]):
                raise ValueError(
                    f"{name} is {x.dtype} {tuple(x.shape)}, and the embeddings are "
                    f"{tuple(embeddings.shape)}; expected are bool (B, L) and (B, L, D)"
                )
        if key_padding_mask is None:
            if document_starts is None:
                return None
            key_padding_mask = torch.zeros_like(document_starts)
        padding = Padding(key_padding_mask, document_starts)
        return padding if padding.any or document_starts is not None else None

    def _choose(self, embeddings: Tensor, padding: Padding | None) -> str:
        """The implementation of attention for this forward pass."""
        config = self.config
        has_content_bias = self.encoding.uses("content_bias")
        parameters = () if self.position is None else self.position.parameters()
        has_gradient = has_content_bias or any(p.requires_grad for p in parameters)
        return choose(
            config.attn_impl,
            embeddings.device,
            padding,
            has_content_bias=has_content_bias,
            is_trained=(self.training and config.attention_dropout > 0)
            or (torch.is_grad_enabled() and has_gradient),
            num_scores=config.num_heads * embeddings.size(1) ** 2,
        )

    def _chunked(
        self, embeddings: Tensor, packed: Padding | None
    ) -> tuple[Tensor | None, dict[str, Any]]:
        """The bias of the longest sequence, and how layers attend within each of them."""
        batch, seq_len = embeddings.shape[:2]
        positions: Positions = seq_len
        lengths = [seq_len] * batch
        if packed is not None:
            lengths = packed.lengths
            positions = torch.cat([torch.arange(n) for n in (0, *lengths)])
        attend = uncompiled(chunked.attend) if self.config.compile_layers else chunked.attend
        attend = functools.partial(attend, lengths=lengths)
        bias = self._bias(max([1, *lengths]), embeddings.device)
        return bias, {"attend": attend, "positions": positions}

    def _mask_dtype(self, name: str, x: Tensor) -> torch.dtype:
        """That of the scores to which the mask is added."""
        device = x.device.type
        is_autocast = not x.is_meta and torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if is_autocast else x.dtype
        if name == "eager" or self.encoding.uses("content_bias"):  # they add to it
            return torch.promote_types(dtype, torch.float32)
        return dtype

    def _added(self, embeddings: Tensor, positions: Positions) -> Tensor | None:
        """What the position encoding adds to the input, (B, L, D)."""
        added = None if self.position is None else self.position.embed(positions)
        return None if added is None else added.to(embeddings).expand_as(embeddings)

    def _bias(self, positions: Positions, device: torch.device) -> Tensor | None:
        """The position bias of all layers: n -> (H, n, n), positions (B, L) -> (B, H, L, L)."""
        position = self.position
        bias = None if position is None else position(positions)  # called, for hooks of FSDP
        if position is None or bias is None:
            return None
        bias = bias.to(device)  # an encoding without parameters need not know it
        if bias.requires_grad and position.cls_row_is_constant:
            # a constant row cancels in the softmax: its gradient would be rounding noise
            rows = is_at_cls(positions, device).unsqueeze(-2).unsqueeze(-1)
            bias.register_hook(lambda grad: grad.masked_fill(rows, 0))
        return bias

    # ---- The record of the options in the state dict --------------------------------------------

    def reset_parameters(self) -> None:
        """Record the options again, as after ``to_empty``."""
        self.position_version.copy_(options_record(self.config))

    def load_state_dict(self, state_dict, strict: bool = True, *args, **kwargs):
        """As ``nn.Module``'s; a whole state dict must record its options."""
        if strict:
            self.check_whole(state_dict)
        return super().load_state_dict(state_dict, strict, *args, **kwargs)

    def check_whole(self, state_dict: dict[str, Tensor], prefix: str = "") -> None:
        """Refuse a state dict without a record, unless a part is loaded (``strict=False``)."""
        if prefix + RECORD not in state_dict:
            raise ValueError(
                "the checkpoint holds no position options, so it was not written by this project; "
                "tupe-convert converts the TUPE authors' checkpoints"
            )
