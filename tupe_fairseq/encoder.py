"""Where position encodings and Transformer meet: an encoder built from a config."""

import json
from typing import Callable, List, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe_fairseq.config import TupeConfig
from tupe_fairseq.modules import TupeEncoderLayer
from tupe_fairseq.position import TupePositionBias


class TupeEncoder(nn.Module):
    """A stack of layers over word embeddings, which hold no position.

    x = zero_at_padding(dropout(LN(embeddings))); bias = position_bias(L), once;
    x = layer(x, bias) for each layer; pre-LN: x = LN(x).
    Source: Ke, He and Liu 2021, section 3, https://arxiv.org/abs/2006.15595.

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
        LayerNorm.
    Dtype and device: those of the parameters.
    Raises:
        ValueError: if L exceeds ``config.max_positions``.
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
        self.config = config
        self.layernorm_embedding = nn.LayerNorm(config.embed_dim)
        self.position_bias = TupePositionBias(
            config.embed_dim,
            config.num_heads,
            config.max_positions,
            rel_pos=config.rel_pos,
            rel_pos_buckets=config.rel_pos_buckets,
            max_rel_pos=config.max_rel_pos,
            tie_cls=config.tie_cls,
        )
        self.layers = layer_list(
            [wrap_layer(self._build_layer()) for _ in range(config.num_layers)]
        )
        self.layer_norm = nn.LayerNorm(config.embed_dim) if config.normalize_before else None
        # The position options as JSON text, one character an int64: a buffer because whoever
        # loads a state dict sees nothing else of the file; int64 and "version" in the name so
        # that averaging checkpoints, half precision and fairseq's moving average leave it alone.
        options = json.dumps(config.position_options, sort_keys=True)
        self.register_buffer("position_version", torch.tensor(list(options.encode())))

    def _build_layer(self) -> TupeEncoderLayer:
        config = self.config
        return TupeEncoderLayer(
            config.embed_dim,
            config.num_heads,
            config.ffn_embed_dim,
            scaling=self.position_bias.scaling,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            activation_dropout=config.activation_dropout,
            activation_fn=config.activation_fn,
            normalize_before=config.normalize_before,
        )

    def forward(
        self,
        embeddings: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        return_all_hiddens: bool = False,
    ) -> Union[Tensor, Tuple[Tensor, List[Tensor]]]:
        x = self.layernorm_embedding(embeddings)
        x = F.dropout(x, self.config.dropout, self.training)
        if key_padding_mask is not None:
            x = x.masked_fill(key_padding_mask.unsqueeze(-1), 0)
        attn_bias = self.position_bias(x.size(1))

        hiddens = [x]
        for layer in self.layers:
            x = layer(x, attn_bias=attn_bias, key_padding_mask=key_padding_mask)
            if return_all_hiddens:
                hiddens.append(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return (x, hiddens) if return_all_hiddens else x

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
        differing = [
            f"--{name.replace('_', '-')} is {theirs.get(name)} in the checkpoint and "
            f"{ours.get(name)} in this model"
            for name in sorted({**theirs, **ours})
            if theirs.get(name) != ours.get(name)
        ]
        if differing:
            raise ValueError(
                "position options differ: " + "; ".join(differing) + "; give the checkpoint's"
            )
