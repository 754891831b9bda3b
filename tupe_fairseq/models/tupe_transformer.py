"""fairseq's encoder-decoder Transformer, for translation, with any position encoding."""

from argparse import Namespace
from dataclasses import dataclass
from typing import Optional

import torch
from fairseq.models import FairseqEncoder, register_model
from fairseq.models.transformer import TransformerEncoderBase, TransformerModel, base_architecture
from omegaconf import OmegaConf

from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.matrices import mark_matrices
from tupe_fairseq.models._fairseq_config import (
    add_flags,
    option_names,
    register_sizes,
    set_defaults,
)
from tupe_fairseq.models.tupe_decoder import (
    DecoderModel,
    DecoderOptions,
    TupeDecoder,
    check_options,
    config_of,
)
from tupe_fairseq.models.tupe_roberta import prepare_layers
from tupe_fairseq.options import POSITION_ENCODINGS, check_names, option

#: --arch -> layers of encoder and of decoder, width, heads, inner width unless it is 4 * width
SIZES = {
    "tupe_transformer_tiny": (2, 128, 2),
    "tupe_transformer_iwslt_de_en": (6, 512, 4, 1024),
    "tupe_transformer_base": (6, 512, 8),
}


@dataclass
class TranslationOptions(DecoderOptions):
    encoder_position_encoding: Optional[str] = option(  # noqa: UP045
        None, "the encoder's encoding; default: --position-encoding", POSITION_ENCODINGS
    )
    cross_positions: bool = option(False, "use untied positions in cross-attention, too")


class SourceEncoder(FairseqEncoder):
    """A :class:`TupeEncoder` that accepts padding on the left, as in fairseq's translation."""

    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(dictionary)
        own = cfg.encoder
        self.embed_tokens, self.padding_idx = embed_tokens, embed_tokens.padding_idx
        self.embed_scale = 1.0 if cfg.no_scale_embedding else own.embed_dim**0.5
        self.stack = TupeEncoder(config_of(cfg, "encoder"))
        mark_matrices(self.stack)
        prepare_layers(self.stack.layers, cfg)

    def forward(self, src_tokens, src_lengths=None, return_all_hiddens=False):
        """As in fairseq, but the output has its padding on the right."""
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
        words = self.embed_scale * self.embed_tokens(tokens)
        out = self.stack(words, padding, return_all_hiddens)
        x, hiddens = out if return_all_hiddens else (out, [])
        return {
            "encoder_out": [x.transpose(0, 1)],
            "encoder_padding_mask": [padding],
            "encoder_embedding": [words],
            "encoder_states": [h.transpose(0, 1) for h in hiddens],
            "src_tokens": [],
            "src_lengths": [],
        }

    reorder_encoder_out = TransformerEncoderBase.reorder_encoder_out

    def max_positions(self):
        return self.stack.config.max_positions


@register_model("tupe_transformer")
class TupeTransformer(DecoderModel, TransformerModel):
    """fairseq's TransformerModel with a :class:`TupeEncoder` and a :class:`TupeDecoder`."""

    @classmethod
    def add_args(cls, parser):
        super().add_args(parser)
        add_flags(parser, TranslationOptions())

    @classmethod
    def build_model(cls, args, task):
        if OmegaConf.is_config(args):  # fairseq would pass on only its own options
            check_names(args, f"model {args._name}", {*option_names(args._name), "_name"})
            values = OmegaConf.to_container(args, resolve=True).items()
            # omegaconf 2.0 has None instead of fairseq's defaults
            args = Namespace(**{name: value for name, value in values if value is not None})
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
    set_defaults(args, {"position_encoding": "tupe", "encoder_position_encoding": None})
    set_defaults(args, {"cross_positions": False})
    args.no_token_positional_embeddings = True
    base_architecture(args)


register_sizes("tupe_transformer", SIZES, tupe_architecture, ("encoder", "decoder"))
