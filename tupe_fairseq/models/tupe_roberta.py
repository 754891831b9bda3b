"""fairseq's RoBERTa with TUPE's encoder: flags, presets, checks, and the model.

Source: Ke, He and Liu 2021, https://arxiv.org/abs/2006.15595.
"""

import logging
from dataclasses import fields

from fairseq.distributed import fsdp_wrap
from fairseq.models import register_model
from fairseq.models.roberta import RobertaModel
from fairseq.models.roberta import base_architecture as roberta_base_architecture
from fairseq.models.roberta.model import RobertaEncoder
from fairseq.models.transformer import DEFAULT_MIN_PARAMS_TO_WRAP
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.utils import safe_getattr
from omegaconf import OmegaConf
from torch import Tensor, nn

from tupe_fairseq.checkpoint.checkpoint import ENCODER, vocabulary_version
from tupe_fairseq.checkpoint.fit import fit, recorded_vocabulary
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.matrices import mark_matrices
from tupe_fairseq.models._fairseq_config import (
    add_flags,
    fairseq_dataclass,
    option_names,
    register_sizes,
    set_defaults,
)
from tupe_fairseq.modules.heads import LMHead, TaggingHead, TextHead, fit_heads
from tupe_fairseq.options import (
    ARCHITECTURES,
    FIXED_OPTIONS,
    RobertaOptions,
    TupeConfig,
    check_names,
    refuse_others,
)
from tupe_fairseq.position import get_position_encoding

logger = logging.getLogger(__name__)

#: options that fairseq does not have
OWN_OPTIONS = {x.name: x for x in fields(RobertaOptions) if x.metadata["help"] is not None}
#: what an architecture sets besides its size
DEFAULTS = {
    **{name: option.default for name, option in OWN_OPTIONS.items()},
    "pooler_dropout": RobertaOptions.pooler_dropout,
    "no_token_positional_embeddings": True,
    "min_params_to_wrap": DEFAULT_MIN_PARAMS_TO_WRAP,
    "load_checkpoint_heads": False,
}


# ---- Flags, presets and checks ------------------------------------------------------------------


def add_tupe_args(parser) -> None:
    add_flags(parser, fairseq_dataclass("TupeOptions", OWN_OPTIONS)())


def base_architecture(args):
    set_defaults(args, DEFAULTS)
    encoding = get_position_encoding(args.position_encoding)
    set_defaults(args, encoding.defaults(args.rel_pos))
    roberta_base_architecture(args)


def check_options(args, task) -> None:
    """Refuse options that would be ignored, or would mean something else."""
    refuse_others(args, FIXED_OPTIONS, "tupe_roberta")
    RobertaOptions.from_roberta_options(args)  # checks their ranges
    options = getattr(task, "cfg", None)
    length = safe_getattr(options, "tokens_per_sample") or 0
    if length > args.max_positions:
        raise ValueError(
            f"--tokens-per-sample ({length}) is above --max-positions ({args.max_positions}); "
            "lower the first or raise the second"
        )
    is_config = OmegaConf.is_config(options)
    has_init_token = "init_token" in options if is_config else hasattr(options, "init_token")
    if has_init_token and options.init_token != 0:
        raise ValueError(
            f"--init-token ({options.init_token}) must be 0, so that <s> is at position 0; pass "
            "--init-token 0 --separator-token 2"
        )
    has_heads = not isinstance(task, MaskedLMTask) or args.load_checkpoint_heads
    if args.pooling != "cls" and not has_heads:
        raise ValueError(
            f"--pooling {args.pooling} is for classification heads, which pre-training does not "
            "have; use it for fine-tuning"
        )
    if args.isolate_documents and not getattr(task, "has_isolated_documents", False):
        raise ValueError(
            "--isolate-documents needs --task tupe_masked_lm; other tasks do not need the flag, "
            "even if the model was pre-trained with it"
        )


def prepare_layers(layers: nn.ModuleList, options) -> None:
    """Set up activation checkpointing and FSDP, as fairseq's options say."""
    smallest = 0 if options.checkpoint_activations else options.min_params_to_wrap
    for number, layer in enumerate(layers):
        layer.gradient_checkpointing = options.checkpoint_activations
        layers[number] = fsdp_wrap(layer, min_num_params=smallest)


# ---- The model ----------------------------------------------------------------------------------


class TupeRobertaEncoder(RobertaEncoder):
    """fairseq's RoBERTa encoder, with its LM head, around a :class:`TupeEncoder`."""

    def __init__(self, args, dictionary):
        super().__init__(args, dictionary)
        # a buffer, because shapes do not tell vocabularies of the same size apart
        self.register_buffer("vocabulary_version", vocabulary_version(dictionary.symbols))

    def build_encoder(self, args, dictionary, embed_tokens):
        self.padding_idx = embed_tokens.padding_idx
        # the token that begins each further document of a sample
        self.document_start = dictionary.bos() if args.isolate_documents else None
        encoder = TupeEncoder(TupeConfig.from_roberta_options(args))
        mark_matrices(encoder)
        prepare_layers(encoder.layers, args)
        encoder.embed_tokens = embed_tokens
        return encoder

    def build_lm_head(self, embed_dim, output_dim, activation_fn, weight):
        return LMHead(embed_dim, output_dim, activation_fn, weight)

    def extract_features(
        self,
        src_tokens,
        return_all_hiddens=False,
        token_embeddings=None,
        output_tokens=None,
        lengths=None,
        **unused,
    ):
        """As in RoBERTa. ``<s>`` is at index 0, padding on the right.

        Shape: src_tokens (B, L), optionally their embeddings (B, L, D) -> (B, L, D), or (n, D) for
        ``output_tokens`` (n,), and {"inner_states": list of (L, B, D)}.
        """
        encoder = self.sentence_encoder
        if token_embeddings is None:
            token_embeddings = encoder.embed_tokens(src_tokens)
        mask = src_tokens.eq(self.padding_idx) if lengths is None else None
        starts = None if self.document_start is None else src_tokens.eq(self.document_start)
        out = encoder(token_embeddings, mask, return_all_hiddens, starts, output_tokens, lengths)
        if not return_all_hiddens:
            return out, {"inner_states": None}
        x, hiddens = out
        return x, {"inner_states": [hidden.transpose(0, 1) for hidden in hiddens]}

    def forward(
        self,
        src_tokens,
        features_only=False,
        return_all_hiddens=False,
        masked_tokens=None,
        masked_positions=None,
        lengths=None,
        **unused,
    ):
        """As in RoBERTa; ``masked_positions`` (n,) are the indices where ``masked_tokens`` is True.

        With them and a list of the rows' ``lengths``, the host need not wait for a GPU.
        """
        if masked_tokens is not None and not features_only and not return_all_hiddens:
            if masked_positions is None:
                masked_positions = masked_tokens.flatten().nonzero().squeeze(1)
            places = {"output_tokens": masked_positions, "lengths": lengths}
            features, extra = self.extract_features(src_tokens, **places)
            return self.output_layer(features), extra
        return super().forward(src_tokens, features_only, return_all_hiddens, masked_tokens)


@register_model("tupe_roberta")
class TupeRobertaModel(RobertaModel):
    """fairseq's RoBERTa whose encoder is a :class:`TupeEncoder`."""

    @staticmethod
    def add_args(parser):
        RobertaModel.add_args(parser)
        add_tupe_args(parser)

    @classmethod
    def build_model(cls, args, task):
        if OmegaConf.is_config(args):
            # Hydra accepts any key for a model with flags
            more = "_name", "tokens_per_sample", *FIXED_OPTIONS
            check_names(args, f"model {args._name}", {*option_names(args._name), *more})
            OmegaConf.set_struct(args, False)
        base_architecture(args)
        if safe_getattr(args, "max_positions") is None:
            lengths = (safe_getattr(x, "tokens_per_sample") for x in (args, task.cfg))
            args.max_positions = next(filter(None, lengths), None) or task.max_positions()
        check_options(args, task)
        model = cls(args, TupeRobertaEncoder(args, task.source_dictionary))
        if OmegaConf.is_config(args):
            OmegaConf.set_struct(args, True)
        return model

    def forward(
        self,
        src_tokens,
        features_only=False,
        return_all_hiddens=False,
        classification_head_name=None,
        word_starts=None,
        **kwargs,
    ):
        """As in RoBERTa. ``word_starts``, bool (B, L), selects features for a tagging head."""
        if classification_head_name is None:
            return super().forward(src_tokens, features_only, return_all_hiddens, **kwargs)
        features, extra = super().forward(src_tokens, True, return_all_hiddens, **kwargs)
        head = self.classification_heads[classification_head_name]
        if word_starts is not None:
            return head(features[word_starts]), extra
        return head(features, src_tokens.ne(self.encoder.padding_idx)), extra

    def training_attention(self) -> str:
        """The attention implementation for the longest samples."""
        encoder = self.encoder.sentence_encoder
        return encoder.attention_name(encoder.config.max_positions)

    def register_classification_head(self, name, num_classes=None, inner_dim=None, **kwargs):
        args, dim = self.args, self.args.encoder_embed_dim
        options = args.pooler_activation_fn, args.pooler_dropout, args.pooling
        self.classification_heads[name] = TextHead(dim, inner_dim or dim, num_classes, *options)

    def register_tagging_head(self, name, num_classes):
        self.classification_heads[name] = TaggingHead(
            self.args.encoder_embed_dim, num_classes, self.args.pooler_dropout
        )

    def upgrade_state_dict_named(self, state_dict, name):
        # skips RobertaModel's method, which is for checkpoints before 0.10 and for its own heads
        super(RobertaModel, self).upgrade_state_dict_named(state_dict, name)

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None):
        """As in fairseq; a whole checkpoint must match in size, vocabulary and encoding."""
        state_dict = dict(state_dict)
        if strict:
            self.check_state_dict(state_dict)
            if recorded_vocabulary(state_dict)[1] is None:
                logger.warning(
                    "the checkpoint does not record its vocabulary; use the dict.txt that it was "
                    "trained with"
                )
                state_dict["encoder.vocabulary_version"] = self.encoder.vocabulary_version
        fit_heads(self, state_dict, is_whole=strict)
        return super().load_state_dict(state_dict, strict)

    def check_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Refuse weights of another model, see ``fit``."""
        fit(self, state_dict, ENCODER, symbols=self.encoder.dictionary.symbols)

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path,
        checkpoint_file="model.pt",
        data_name_or_path=".",
        bpe=None,
        **kwargs,
    ):
        """See :func:`tupe_fairseq.inference.hub.from_pretrained`."""
        from tupe_fairseq.inference.hub import from_pretrained

        where = model_name_or_path, checkpoint_file, data_name_or_path
        return from_pretrained(*where, bpe=bpe, **kwargs)


register_sizes("tupe_roberta", ARCHITECTURES, base_architecture)
