"""The Transformer that joins position encoding and layers; torch only."""

from typing import Any, Callable, List, Optional, Sequence, Tuple, Union, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe_fairseq.attention import Bias, Padding, takes_factors
from tupe_fairseq.modules import (
    SharedBias,
    TupeEncoderLayer,
    check_embeddings,
    check_mask,
    dropout,
)
from tupe_fairseq.position import (
    PositionEncoding,
    build_position_encoding,
    get_position_encoding,
)


class EncoderStack(nn.Module):
    """A stack of layers over word embeddings, which hold no position.

    x = zero_at_padding(dropout(LN(position.forward_input(embeddings)))); bias =
    position.position_bias(L), once; x = layer(x, bias) for each layer; pre-LN: x = LN(x).
    Source: Ke, He and Liu 2021, section 3, https://arxiv.org/abs/2006.15595.

    All layers share one position encoding, ``position``, whose bias :class:`SharedBias` computes;
    or each layer has its own, its attention's ``position``.

    A subclass may build layers in another way (:meth:`build_layer`) or call them in another
    (:meth:`call_layer`).

    Args:
        config: an object with the attributes ``embed_dim``, ``num_heads``, ``num_layers``,
            ``ffn_embed_dim``, ``max_positions``, ``dropout``, ``attention_dropout``,
            ``activation_dropout``, ``activation_fn``, ``normalize_before``,
            ``position_encoding``, ``position_each_layer``, ``attn_impl``, ``unpad``, and
            ``scheme_options``, what :func:`build_position_encoding` gets in addition to sizes.
        wrap_layer (callable): applied to each layer, from module to module; for activation
            checkpointing or sharding.
        layer_list (callable): builds the ``nn.ModuleList`` of the layers; one that skips layers
            when iterated gives LayerDrop.
    Shape:
        embeddings (B, L, D); key_padding_mask bool (B, L), True = padding -> (B, L, D).  [CLS] is
        at index 0; pad on the right.  With ``return_all_hiddens`` also a list of hidden states,
        each (B, L, D): the embedding output, then the output of each layer, in training without
        those that LayerDrop leaves out; in pre-LN the last is taken before the final LayerNorm.
        At padding all are finite and undefined; zero with ``config.unpad``, if all padding is at
        the end of its sequence.
    Dtype and device: those of the parameters.
    Raises:
        ValueError: if ``config.num_heads`` does not divide ``config.embed_dim``, or
            ``config.attn_impl`` or ``config.activation_fn`` is unknown.
        ValueError: if the scheme does not take a position option that is given, or not its value.
        ValueError: if the shapes of embeddings or mask are not those above, L is 0, or a sequence
            begins with padding and does not consist of it.
        ValueError: if L exceeds ``config.max_positions`` and positions have a table.
        TypeError: if the mask is not bool.
        RuntimeError: if ``config.attn_impl`` names an implementation that does not support the
            device, dtype or mode; the message says why.
    """

    def __init__(
        self,
        config: Any,
        *,
        wrap_layer: Callable[[nn.Module], nn.Module] = lambda layer: layer,
        layer_list: Callable[[List[nn.Module]], nn.ModuleList] = nn.ModuleList,
    ):
        super().__init__()
        self.config = config
        self.layernorm_embedding = nn.LayerNorm(config.embed_dim)
        scheme = get_position_encoding(config.position_encoding)
        if config.position_each_layer and not scheme.adds_to_input:
            raise ValueError(
                f"position encoding {config.position_encoding!r} adds nothing to the input, so "
                "there is nothing to add again; drop --position-each-layer"
            )
        # the name that state dicts know; :attr:`position` is what it is
        self.position_bias = None if scheme.per_layer else self._build_position()
        self.shared_bias = SharedBias(self.position_bias)
        self.layers = layer_list([wrap_layer(self.build_layer()) for _ in range(config.num_layers)])
        self.layer_norm = nn.LayerNorm(config.embed_dim) if config.normalize_before else None

    @property
    def position(self) -> Optional[PositionEncoding]:
        """The position encoding that all layers share; None if each layer has its own."""
        return self.position_bias

    def _build_position(self) -> PositionEncoding:
        config = self.config
        return build_position_encoding(
            config.position_encoding,
            embed_dim=config.embed_dim,
            num_heads=config.num_heads,
            max_positions=config.max_positions,
            **config.scheme_options,
        )

    def build_layer(self) -> TupeEncoderLayer:
        """A layer, with a position encoding of its own if the scheme has one per layer."""
        config = self.config
        position = self.position or self._build_position()
        return TupeEncoderLayer(
            config.embed_dim,
            config.num_heads,
            config.ffn_embed_dim,
            scaling=position.scaling,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            activation_dropout=config.activation_dropout,
            activation_fn=config.activation_fn,
            normalize_before=config.normalize_before,
            attn_impl=config.attn_impl,
            position=None if position is self.position else position,
        )

    def forward(
        self,
        embeddings: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        return_all_hiddens: bool = False,
    ) -> Union[Tensor, Tuple[Tensor, List[Tensor]]]:
        """The hidden states of a batch.

        Args:
            embeddings (Tensor): those of the words; [CLS] is at index 0.
            key_padding_mask (Tensor, optional): True = padding, which is on the right; None if
                there is none.
            return_all_hiddens (bool): give a pair, whose second is the hidden states before and
                after each layer.
        Shape:
            embeddings (B, L, D), key_padding_mask bool (B, L) -> (B, L, D), and a list of such.
        Raises:
            ValueError, TypeError, RuntimeError: as the class says.
        """
        padding = self.checked_padding(embeddings, key_padding_mask, self.config.unpad)
        if padding is not None and padding.packed:
            embeddings = padding.pack(embeddings)
        return self.encode(embeddings, padding, return_all_hiddens)

    def checked_padding(
        self, embeddings: Tensor, key_padding_mask: Optional[Tensor], pack: bool = False
    ) -> Optional[Padding]:
        """The padding of a batch, None without a mask; refuses what :meth:`forward` refuses."""
        check_embeddings(embeddings, self.config.embed_dim)
        if key_padding_mask is None:
            return None
        check_mask(key_padding_mask, embeddings)
        return Padding(key_padding_mask, pack)

    def encode(
        self, embeddings: Tensor, padding: Optional[Padding], return_all_hiddens: bool = False
    ) -> Union[Tensor, Tuple[Tensor, List[Tensor]]]:
        """As :meth:`forward`, from embeddings (N, D) where the padding is packed."""
        seq_len = embeddings.size(1) if padding is None else padding.seq_len
        if seq_len == 0:
            raise ValueError("the sequences have no token (L = 0); at least [CLS] must be there")
        if padding is not None and padding.begins_with_padding:
            raise ValueError(
                "a sequence begins with padding; TUPE numbers positions from the left, so pad on "
                "the right (fairseq's masked_lm and sentence_prediction do)"
            )
        if padding is not None and not padding.any:
            padding = None
        packing = padding if padding is not None and padding.packed else None

        added = self._added_positions(embeddings.device, seq_len, packing)
        if added is not None:
            embeddings = embeddings + added.to(embeddings.dtype)
        x = self.layernorm_embedding(embeddings)
        x = dropout(x, self.config.dropout, self.training)
        if padding is not None and packing is None:
            x = x.masked_fill(padding.mask.unsqueeze(-1), 0)
        in_factors = takes_factors(self.config.attn_impl, x, padding, self.config.num_heads)
        bias = self.shared_bias(self.position, seq_len, x.device, in_factors)

        shared = self.position
        if shared is not None and not shared.reads_content:
            shared = None
        for_layers = None if shared is None else shared.for_layers(seq_len)
        values = None if bias is None else bias.values
        hiddens = [x]
        for index, layer in enumerate(self.layers):
            if index and added is not None and self.config.position_each_layer:
                x = x + added.to(x.dtype)
            x = self.call_layer(layer, x, bias, padding, shared, for_layers, values)
            if return_all_hiddens:
                hiddens.append(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        if packing is not None:
            x = packing.unpack(x)
        if not return_all_hiddens:
            return x
        return x, hiddens if packing is None else [packing.unpack(hidden) for hidden in hiddens]

    def call_layer(
        self,
        layer: nn.Module,
        x: Tensor,
        attn_bias: Optional[Bias],
        padding: Optional[Padding],
        position: Optional[PositionEncoding],
        for_layers: Optional[Tensor],
        bias_values: Optional[Tensor],
    ) -> Tensor:
        """The output of one layer; see :meth:`TupeEncoderLayer.forward`."""
        return layer(
            x,
            attn_bias=attn_bias,
            key_padding_mask=padding,
            position=position,
            for_layers=for_layers,
            bias_values=bias_values,
        )

    def weights_of(self, hiddens: Sequence[Tensor], padding: Optional[Padding]) -> List[Tensor]:
        """The probabilities of attention in each layer, without dropout; for inspection.

        Args:
            hiddens (sequence of Tensor): the hidden states of a pass through all layers, as
                :meth:`forward` gives them; those after the last layer are not needed.
            padding (Padding, optional): that of the batch, not packed; None if there is none.
        Shape:
            each (B, L, D) -> for each layer (B, H, L, L), rows are queries; 0 at padded keys.
        """
        seq_len = hiddens[0].size(1)
        bias = self.shared_bias(self.position, seq_len, hiddens[0].device)
        added = self._added_positions(hiddens[0].device, seq_len, None)
        weights = []
        for index, (layer, x) in enumerate(zip(self.layers, hiddens)):
            if index and added is not None and self.config.position_each_layer:
                x = x + added.to(x.dtype)
            weights.append(
                cast(TupeEncoderLayer, layer).attention_weights(x, bias, padding, self.position)
            )
        return weights

    def _added_positions(
        self, device: torch.device, seq_len: int, packing: Optional[Padding]
    ) -> Optional[Tensor]:
        """What the position encoding adds to the input: (L, D), or (N, D) for packed tokens."""
        added = None if self.position is None else self.position.embed(seq_len)
        if added is None:
            return None
        added = added.to(device)  # a position encoding without parameters need not know it
        return added if packing is None else F.embedding(packing.positions, added)
