"""fairseq's Transformer language model with any position encoding."""

from dataclasses import dataclass, field
from functools import partial
from typing import Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import DEFAULT_MAX_TARGET_POSITIONS, TransformerConfig
from fairseq.models.transformer_lm import (
    TransformerLanguageModel,
    TransformerLanguageModelConfig,
    base_lm_architecture,
)
from fairseq.utils import safe_getattr

from tupe_fairseq.models.tupe_decoder import (
    POSITION_OPTIONS,
    DecoderModel,
    TupeDecoder,
    check_options,
)
from tupe_fairseq.options import POSITION_ENCODINGS
from tupe_fairseq.options import POSITION_OPTIONS as OPTIONS

#: --arch -> layers, width, heads; the feed-forward network is four times as wide
SIZES = {
    "tupe_transformer_lm_base": (6, 512, 8),
    "tupe_transformer_lm_tiny": (2, 128, 2),
    "tupe_transformer_lm_gpt2_small": (12, 768, 12),
}


def _option(name):
    return field(default=OPTIONS[name].default, metadata={"help": OPTIONS[name].help})


@dataclass
class TupeLanguageModelConfig(TransformerLanguageModelConfig):
    position_encoding: ChoiceEnum(list(POSITION_ENCODINGS)) = field(  # type: ignore[valid-type]
        default="tupe", metadata={"help": "the position encoding, see examples/positions"}
    )
    rel_pos: bool = _option("rel_pos")
    rel_pos_buckets: Optional[int] = _option("rel_pos_buckets")  # noqa: UP045, for fairseq
    max_rel_pos: Optional[int] = _option("max_rel_pos")  # noqa: UP045
    symmetric_basis: bool = _option("symmetric_basis")


@register_model("tupe_transformer_lm", dataclass=TupeLanguageModelConfig)
class TupeLanguageModel(DecoderModel, TransformerLanguageModel):
    """fairseq's TransformerLanguageModel whose decoder is a :class:`TupeDecoder`."""

    @classmethod
    def hub_models(cls):
        return {}

    @classmethod
    def build_model(cls, args, task):
        check_options(args)
        if args.decoder_layers_to_keep:
            args.decoder_layers = len(args.decoder_layers_to_keep.split(","))
        length = safe_getattr(args, "tokens_per_sample") or 0
        if safe_getattr(args, "max_target_positions") is None:
            args.max_target_positions = length or DEFAULT_MAX_TARGET_POSITIONS
        if length > args.max_target_positions:
            raise ValueError(
                f"--tokens-per-sample ({length}) is above --max-target-positions "
                f"({args.max_target_positions}); lower the first or raise the second"
            )
        embed = cls.build_embedding(args, task.source_dictionary, args.decoder_input_dim)
        cfg = TransformerConfig.from_namespace(args)
        cfg.position_encoding = str(args.position_encoding)
        for name in POSITION_OPTIONS:
            setattr(cfg, name, safe_getattr(args, name))
        cfg.no_token_positional_embeddings = True
        return cls(TupeDecoder(cfg, task.target_dictionary, embed, no_encoder_attn=True))


def sized_architecture(args, size):
    layers, embed_dim, heads = size
    args.decoder_layers = safe_getattr(args, "decoder_layers", layers)
    args.decoder_embed_dim = safe_getattr(args, "decoder_embed_dim", embed_dim)
    args.decoder_ffn_embed_dim = safe_getattr(args, "decoder_ffn_embed_dim", 4 * embed_dim)
    args.decoder_attention_heads = safe_getattr(args, "decoder_attention_heads", heads)
    args.activation_fn = safe_getattr(args, "activation_fn", "gelu")
    share = safe_getattr(args, "share_decoder_input_output_embed", True)
    args.share_decoder_input_output_embed = share
    base_lm_architecture(args)


for _arch, _size in SIZES.items():
    register_model_architecture("tupe_transformer_lm", _arch)(
        partial(sized_architecture, size=_size)
    )
