"""fairseq's Transformer language model with any position encoding."""

from dataclasses import dataclass

from fairseq.models import register_model
from fairseq.models.transformer import DEFAULT_MAX_TARGET_POSITIONS, TransformerConfig
from fairseq.models.transformer_lm import (
    TransformerLanguageModel,
    TransformerLanguageModelConfig,
    base_lm_architecture,
)
from fairseq.utils import safe_getattr

from tupe_fairseq.models._fairseq_config import add_flags, register_sizes, set_defaults
from tupe_fairseq.models.tupe_decoder import (
    OF_DECODERS,
    DecoderModel,
    DecoderOptions,
    TupeDecoder,
    check_options,
)

#: --arch -> layers, width, heads; the feed-forward network is four times as wide
SIZES = {
    "tupe_transformer_lm_base": (6, 512, 8),
    "tupe_transformer_lm_tiny": (2, 128, 2),
    "tupe_transformer_lm_gpt2_small": (12, 768, 12),
}


@dataclass
class TupeLanguageModelConfig(DecoderOptions, TransformerLanguageModelConfig):
    """fairseq's config, with the position encoding."""


@register_model("tupe_transformer_lm", dataclass=TupeLanguageModelConfig)
class TupeLanguageModel(DecoderModel, TransformerLanguageModel):
    """fairseq's TransformerLanguageModel whose decoder is a :class:`TupeDecoder`."""

    @classmethod
    def add_args(cls, parser):
        add_flags(parser, TupeLanguageModelConfig(), delete_default=False)

    @classmethod
    def build_model(cls, args, task):
        check_options(args)
        length = safe_getattr(args, "tokens_per_sample") or 0
        length += bool(length and safe_getattr(args, "add_bos_token"))
        if safe_getattr(args, "max_target_positions") is None:
            args.max_target_positions = length or DEFAULT_MAX_TARGET_POSITIONS
        if length > args.max_target_positions:
            raise ValueError(
                f"samples have up to {length} tokens, more than --max-target-positions "
                f"({args.max_target_positions}); raise it or lower --tokens-per-sample"
            )
        embed = cls.build_embedding(args, task.source_dictionary, args.decoder_input_dim)
        cfg = TransformerConfig.from_namespace(args)
        for name in OF_DECODERS:
            setattr(cfg, name, safe_getattr(args, name))
        cfg.no_token_positional_embeddings = True
        return cls(TupeDecoder(cfg, task.target_dictionary, embed, no_encoder_attn=True))


def tupe_lm_architecture(args):
    set_defaults(args, {"activation_fn": "gelu", "share_decoder_input_output_embed": True})
    base_lm_architecture(args)


register_sizes("tupe_transformer_lm", SIZES, tupe_lm_architecture, ("decoder",))
