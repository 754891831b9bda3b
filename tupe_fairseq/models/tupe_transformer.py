"""fairseq's encoder-decoder Transformer, for translation, with any position encoding."""

from functools import partial

import torch
from fairseq.models import FairseqEncoder, register_model, register_model_architecture
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.modules import LayerDropModuleList
from fairseq.utils import safe_getattr
from torch import nn

from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.models.tupe_decoder import (
    POSITION_OPTIONS,
    DecoderModel,
    TupeDecoder,
    check_options,
    position_config,
)
from tupe_fairseq.models.tupe_roberta import wrap_layer
from tupe_fairseq.options import POSITION_ENCODINGS, flag
from tupe_fairseq.options import POSITION_OPTIONS as OPTIONS

#: --arch -> layers of encoder and decoder each, width, inner width, heads
SIZES = {
    "tupe_transformer_tiny": (2, 128, 512, 2),
    "tupe_transformer_iwslt_de_en": (6, 512, 1024, 4),
    "tupe_transformer_base": (6, 512, 2048, 8),
}


class SourceEncoder(FairseqEncoder):
    """A :class:`TupeEncoder` that takes what fairseq's translation gives: padding on the left."""

    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(dictionary)
        own = cfg.encoder
        self.embed_tokens, self.padding_idx = embed_tokens, embed_tokens.padding_idx
        self.embed_scale = 1.0 if cfg.no_scale_embedding else own.embed_dim**0.5
        name = cfg.encoder_position_encoding or cfg.position_encoding
        sizes = own.embed_dim, own.attention_heads, cfg.max_source_positions
        config = position_config(
            cfg,
            name,
            *sizes,
            num_layers=own.layers,
            ffn_embed_dim=own.ffn_embed_dim,
            dropout=cfg.dropout,
            attention_dropout=cfg.attention_dropout,
            activation_dropout=cfg.activation_dropout or cfg.relu_dropout or 0.0,
            activation_fn=str(cfg.activation_fn),
            normalize_before=own.normalize_before,
        )

        drop = own.layerdrop
        layer_list = partial(LayerDropModuleList, drop) if drop > 0 else nn.ModuleList
        self.stack = TupeEncoder(
            config, wrap_layer=partial(wrap_layer, options=cfg), layer_list=layer_list
        )

    def forward(
        self, src_tokens, src_lengths=None, return_all_hiddens=False, token_embeddings=None
    ):
        """As fairseq's, with the padding of the output on the right."""
        if src_tokens.size(1) > self.max_positions():
            raise ValueError(
                f"a source has {src_tokens.size(1)} tokens, more than --max-source-positions "
                f"({self.max_positions()}); raise it, or shorten the sequences"
            )
        length, is_left = src_tokens.size(1), src_tokens[:, :1].eq(self.padding_idx)
        shift = is_left * src_tokens.eq(self.padding_idx).sum(dim=1, keepdim=True)
        order = (torch.arange(length, device=src_tokens.device) + shift) % max(1, length)
        tokens = src_tokens.gather(1, order)
        padding = tokens.eq(self.padding_idx)
        words = self.embed_tokens(tokens)
        if token_embeddings is not None:
            words = token_embeddings.take_along_dim(order.unsqueeze(-1), dim=1)
        words = self.embed_scale * words
        x, hiddens = self.stack(words, padding, return_all_hiddens=True)
        return {
            "encoder_out": [x.transpose(0, 1)],
            "encoder_padding_mask": [padding],
            "encoder_embedding": [words],
            "encoder_states": [h.transpose(0, 1) for h in hiddens] if return_all_hiddens else [],
            "src_tokens": [],
            "src_lengths": [],
        }

    def reorder_encoder_out(self, encoder_out, new_order):
        """The rows of a beam search, some of which go and others are there twice."""
        dims = {"encoder_out": 1, "encoder_states": 1}  # those of the batch
        return {
            name: [x.index_select(dims.get(name, 0), new_order) for x in tensors]
            for name, tensors in encoder_out.items()
        }

    def max_positions(self):
        return self.stack.config.max_positions


@register_model("tupe_transformer")
class TupeTransformer(DecoderModel, TransformerModel):
    """fairseq's TransformerModel with a :class:`TupeEncoder` and a :class:`TupeDecoder`."""

    @classmethod
    def hub_models(cls):
        return {}

    @classmethod
    def add_args(cls, parser):
        super().add_args(parser)
        names = list(POSITION_ENCODINGS)
        parser.add_argument(
            "--position-encoding",
            choices=names,
            help="the position encoding, see examples/positions; default tupe",
        )
        parser.add_argument(
            "--encoder-position-encoding",
            choices=names,
            help="that of the encoder; default: --position-encoding",
        )
        for name in POSITION_OPTIONS:
            is_number = OPTIONS[name].default is None
            kind = {"type": int, "metavar": "N"} if is_number else {"action": "store_true"}
            parser.add_argument(flag(name), help=OPTIONS[name].help, **kind)
        parser.add_argument(
            "--cross-positions",
            action="store_true",
            help="untied positions in cross-attention, too",
        )

    @classmethod
    def build_model(cls, args, task):
        tupe_architecture(args)
        check_options(args)
        return super().build_model(args, task)

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens):
        return SourceEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens):
        return TupeDecoder(cfg, tgt_dict, embed_tokens)


def tupe_architecture(args):
    args.position_encoding = safe_getattr(args, "position_encoding") or "tupe"
    for name, default in {"encoder_position_encoding": None, "cross_positions": False}.items():
        setattr(args, name, safe_getattr(args, name, default))
    args.no_token_positional_embeddings = True
    base_architecture(args)


def sized_architecture(args, size):
    layers, embed_dim, ffn_embed_dim, heads = size
    for side in ("encoder", "decoder"):
        sizes = {
            "layers": layers,
            "embed_dim": embed_dim,
            "ffn_embed_dim": ffn_embed_dim,
            "attention_heads": heads,
        }
        for name, value in sizes.items():
            name = f"{side}_{name}"
            setattr(args, name, safe_getattr(args, name, value))
    tupe_architecture(args)


for _arch, _size in SIZES.items():
    register_model_architecture("tupe_transformer", _arch)(partial(sized_architecture, size=_size))
