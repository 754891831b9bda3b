"""Where position encodings and Transformer meet: an encoder built from a config."""

import json
from typing import Callable, List, Optional, Tuple, Union

import torch
from torch import Tensor, nn

from tupe_fairseq.attention import Padding, shifted
from tupe_fairseq.config import TupeConfig
from tupe_fairseq.modules import TupeEncoderLayer, dropout
from tupe_fairseq.position import (
    PositionEncoding,
    ResultCache,
    build_position_encoding,
    get_position_encoding,
)


class TupeEncoder(nn.Module):
    """A stack of layers over word embeddings, which hold no position.

    x = zero_at_padding(dropout(LN(position.forward_input(embeddings)))); bias =
    position.position_bias(L), once; x = layer(x, bias) for each layer; pre-LN: x = LN(x).
    Source: Ke, He and Liu 2021, section 3, https://arxiv.org/abs/2006.15595.

    The position encoding is ``position_bias``, or where each layer has its own, its attention's
    ``position``.  In evaluation the bias of a length is kept from batch to batch, for as long as
    its parameters stay the same.  What cancels in the softmax (``softmax_invariant_rows`` of the
    encoding: theta_1 and its bucket) gets no gradient here, where it could only be rounding noise.

    Args:
        config (TupeConfig): the options.
        wrap_layer (callable): applied to each layer, from module to module; for activation
            checkpointing or sharding.
        layer_list (callable): builds the ``nn.ModuleList`` from the layers; one that skips
            layers when iterated gives LayerDrop.
    Shape:
        embeddings (B, L, D); key_padding_mask bool (B, L), True = padding -> (B, L, D).  With
        ``return_all_hiddens`` also the list of the L + 1 hidden states, each (B, L, D): the
        embedding output, then each layer's output; in pre-LN the last is taken before the final
        LayerNorm.  With ``config.unpad`` all are zero at padding, else undefined there.
    Dtype and device: those of the parameters.
    Raises:
        ValueError: if ``config.compile_layers`` and torch cannot compile a module.
        ValueError: if L exceeds ``config.max_positions``, where positions have a table.
        ValueError: if the scheme does not take a position option that is given.
        ValueError: on loading a state dict made with other position options, which would fit
            and silently compute something else.
    """

    def __init__(
        self,
        config: TupeConfig,
        *,
        wrap_layer: Callable[[nn.Module], nn.Module] = lambda layer: layer,
        layer_list: Callable[[List[nn.Module]], nn.ModuleList] = nn.ModuleList,
    ):
        super().__init__()
        if config.compile_layers and not hasattr(nn.Module, "compile"):
            raise ValueError(
                f"--compile-layers needs torch 2.2 or later, and this is {torch.__version__}; "
                "drop the flag"
            )
        self.config = config
        self.layernorm_embedding = nn.LayerNorm(config.embed_dim)
        scheme = get_position_encoding(config.position_encoding)
        if config.position_each_layer and not scheme.adds_to_input:
            raise ValueError(
                f"position encoding {config.position_encoding!r} adds nothing to the input, so "
                "there is nothing to add again; drop --position-each-layer"
            )
        self.position_bias = None if scheme.per_layer else self._build_position()
        self._bias_cache = None if scheme.per_layer else ResultCache(self.position_bias)
        self.layers = layer_list(
            [wrap_layer(self._build_layer()) for _ in range(config.num_layers)]
        )
        self.layer_norm = nn.LayerNorm(config.embed_dim) if config.normalize_before else None
        # The position options as JSON text, one character an int64: a buffer because whoever
        # loads a state dict sees nothing else of the file; int64 and "version" in the name so
        # that averaging checkpoints, half precision and fairseq's moving average leave it alone.
        options = json.dumps(config.position_options, sort_keys=True)
        self.register_buffer("position_version", torch.tensor(list(options.encode())))

    def _build_position(self) -> PositionEncoding:
        config = self.config
        return build_position_encoding(
            config.position_encoding,
            embed_dim=config.embed_dim,
            num_heads=config.num_heads,
            max_positions=config.max_positions,
            **config.scheme_options,
        )

    def _build_layer(self) -> TupeEncoderLayer:
        config = self.config
        position = self._build_position() if self.position_bias is None else None
        layer = TupeEncoderLayer(
            config.embed_dim,
            config.num_heads,
            config.ffn_embed_dim,
            scaling=(self.position_bias or position).scaling,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            activation_dropout=config.activation_dropout,
            activation_fn=config.activation_fn,
            normalize_before=config.normalize_before,
            attn_impl=config.attn_impl,
            position=position,
        )
        if config.compile_layers:
            layer.compile(dynamic=True)
        return layer

    def forward(
        self,
        embeddings: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        return_all_hiddens: bool = False,
    ) -> Union[Tensor, Tuple[Tensor, List[Tensor]]]:
        padding = None if key_padding_mask is None else Padding(key_padding_mask, self.config.unpad)
        if padding is not None and padding.packed:
            embeddings = padding.pack(embeddings)
        return self.encode(embeddings, padding, return_all_hiddens)

    def encode(
        self, embeddings: Tensor, padding: Optional[Padding], return_all_hiddens: bool = False
    ) -> Union[Tensor, Tuple[Tensor, List[Tensor]]]:
        """As :meth:`forward`, from embeddings (N, D) where the padding is packed."""
        seq_len = embeddings.size(1) if padding is None else padding.seq_len
        if padding is not None and not padding.any:
            padding = None
        is_packed = padding is not None and padding.packed

        added = self._added_positions(seq_len, padding)
        if added is not None:
            embeddings = embeddings + added.to(embeddings.dtype)
        x = self.layernorm_embedding(embeddings)
        x = dropout(x, self.config.dropout, self.training)
        if padding is not None and not is_packed:
            x = x.masked_fill(padding.mask.unsqueeze(-1), 0)
        attn_bias, kernel_bias = self._biases(seq_len, x)

        shared = self.position_bias
        hiddens = [x]
        for index, layer in enumerate(self.layers):
            if index and self.config.position_each_layer:
                x = x + added.to(x.dtype)
            x = layer(
                x,
                attn_bias=attn_bias,
                key_padding_mask=padding,
                kernel_bias=kernel_bias,
                position=shared if shared is not None and shared.reads_content else None,
            )
            if return_all_hiddens:
                hiddens.append(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        if is_packed:
            x = padding.unpack(x)
        if not return_all_hiddens:
            return x
        return x, [padding.unpack(hidden) for hidden in hiddens] if is_packed else hiddens

    def attention_weights(
        self, embeddings: Tensor, key_padding_mask: Optional[Tensor] = None
    ) -> List[Tensor]:
        """The probabilities of attention in each layer, without dropout; to look at.

        Shape:
            embeddings (B, L, D) -> for each layer (B, H, L, L), rows are queries; 0 at padded keys.
        """
        padding = None if key_padding_mask is None else Padding(key_padding_mask)
        _, hiddens = self.encode(embeddings, padding, return_all_hiddens=True)
        seq_len = embeddings.size(1)
        bias, _ = self._biases(seq_len, hiddens[0])
        added = self._added_positions(seq_len, None)
        weights = []
        for index, (layer, x) in enumerate(zip(self.layers, hiddens)):
            if index and self.config.position_each_layer:
                x = x + added.to(x.dtype)
            weights.append(layer.attention_weights(x, bias, padding, self.position_bias))
        return weights

    def _added_positions(self, seq_len: int, padding: Optional[Padding]) -> Optional[Tensor]:
        """What the position encoding adds to the input: (L, D), or (N, D) for packed tokens."""
        if self.position_bias is None or not self.position_bias.adds_to_input:
            return None
        added = self.position_bias.embed(seq_len)
        if padding is None or not padding.packed:
            return added
        return padding.pack(added.expand(padding.batch, -1, -1))

    def _biases(self, seq_len: int, x: Tensor) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        """The position bias, and its copy for kernels that compute in a shorter dtype.

        Once for all layers; and in evaluation once for all batches of this length.
        """
        # the dtype that a projection of x would have, with or without autocast
        dtype = torch.mm(x.new_empty(0, 1), x.new_empty(1, 0)).dtype

        if self.position_bias is None:
            return None, None

        def compute():
            bias = self.position_bias(seq_len)
            if bias is None or torch.finfo(dtype).bits >= torch.finfo(bias.dtype).bits:
                return bias, None
            return bias, shifted(bias.detach(), dtype)

        is_trained = torch.is_grad_enabled() and any(
            p.requires_grad for p in self.position_bias.parameters()
        )
        if self.training or is_trained:
            bias, kernel_bias = compute()
        else:
            # what was made in inference mode cannot be used outside it
            key = seq_len, dtype, torch.is_inference_mode_enabled()
            bias, kernel_bias = self._bias_cache.get(key, compute)
        if bias is not None and bias.requires_grad:
            rows = torch.tensor(self.position_bias.softmax_invariant_rows, device=bias.device)
            bias.register_hook(lambda grad: grad.index_fill(1, rows.long(), 0))
        return bias, kernel_bias

    def train(self, mode: bool = True):
        if mode and self._bias_cache is not None:
            self._bias_cache.clear()
        return super().train(mode)

    def _apply(self, fn, *args, **kwargs):
        if self._bias_cache is not None:
            self._bias_cache.clear()
        return super()._apply(fn, *args, **kwargs)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, *args):
        self._check_position_options(state_dict.get(prefix + "position_version"), strict)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, *args)

    def _check_position_options(self, saved: Optional[Tensor], strict: bool) -> None:
        if saved is None:
            if strict:
                raise ValueError(
                    "the checkpoint holds no position options, so this project did not write it; "
                    "tupe-convert converts the TUPE authors' checkpoints"
                )
            return
        theirs = json.loads(bytes(saved.tolist()).decode())
        ours = self.config.position_options
        # "scheme" is what checkpoints call it
        flags = {"scheme": "position-encoding"}
        differing = [
            f"--{flags.get(name, name).replace('_', '-')} is {theirs.get(name)} in the checkpoint "
            f"and {ours.get(name)} in this model"
            for name in sorted({**theirs, **ours})
            if theirs.get(name) != ours.get(name)
        ]
        if differing:
            raise ValueError(
                "position options differ: " + "; ".join(differing) + "; give the checkpoint's"
            )
