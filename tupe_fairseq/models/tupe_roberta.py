"""RoBERTa with TUPE's position encoding: the model and its architectures."""

import argparse
import logging
import os
from functools import partial

import tupe_fairseq.require_fairseq  # noqa: F401

# isort: split
from fairseq.models import ARCH_CONFIG_REGISTRY, register_model, register_model_architecture
from fairseq.models.roberta import RobertaModel
from fairseq.models.roberta import base_architecture as roberta_base_architecture
from fairseq.models.transformer import DEFAULT_MIN_PARAMS_TO_WRAP
from fairseq.utils import import_user_module, safe_getattr, safe_hasattr
from omegaconf import OmegaConf

from tupe_fairseq.architectures import ARCHITECTURES
from tupe_fairseq.files.names import CLS, SENTENCEPIECE_MODEL
from tupe_fairseq.plugin.model.flags import (
    add_tupe_args,
    check_hydra_keys,
    check_options,
    task_options,
)
from tupe_fairseq.plugin.model.hub import TupeRobertaHub
from tupe_fairseq.plugin.model.isolated_documents import isolate_documents
from tupe_fairseq.plugin.model.mean_pooling_head import (
    MeanPoolingHead,
    check_pooling,
    head_outputs,
)
from tupe_fairseq.plugin.model.recorded_bpe import recorded_bpe
from tupe_fairseq.plugin.model.rendezvous_limit import limit_rendezvous
from tupe_fairseq.plugin.model.restore import restore
from tupe_fairseq.plugin.model.sentence_encoder import TupeRobertaEncoder
from tupe_fairseq.plugin.model.tagging_head import TokenTaggingHead, take_tagging_heads
from tupe_fairseq.plugin.model.watch import RunWatch
from tupe_fairseq.plugin.model.whole_words import give_word_beginnings
from tupe_fairseq.plugin.on_import import allow_fairseq_checkpoints
from tupe_fairseq.position import POSITION_OPTIONS, get_position_encoding

logger = logging.getLogger(__name__)

# files next to a checkpoint, and the options of fairseq's encodings that name them
ENCODING_FILES = {
    "code": "bpe_codes",
    "bpecodes": "bpe_codes",
    SENTENCEPIECE_MODEL: "sentencepiece_model",
    "merges.txt": "bpe_merges",
    "vocab.json": "bpe_vocab",
}

allow_fairseq_checkpoints()


@register_model("tupe_roberta")
class TupeRobertaModel(RobertaModel):
    """fairseq's RoBERTa whose encoder is a :class:`TupeEncoder`.

    Source: Ke, He and Liu 2021, https://arxiv.org/abs/2006.15595.  LM head, classification
    heads and hub interface are fairseq's own.

    Args:
        args (Namespace or DictConfig): the options; :meth:`build_model` completes them, so that
            all are stored in the checkpoint.
        encoder (TupeRobertaEncoder): the encoder.
    """

    def __init__(self, args, encoder):
        super().__init__(args, encoder)
        self._watch = RunWatch(args)

    @classmethod
    def hub_models(cls):
        return {}

    @staticmethod
    def add_args(parser):
        """Add RoBERTa's flags and ours to an argparse parser or group."""
        RobertaModel.add_args(parser)
        add_tupe_args(parser)
        limit_rendezvous()  # fairseq-train calls nothing else of ours before its processes meet

    @classmethod
    def build_model(cls, args, task):
        """Build a model from parsed flags or from a Hydra config; see :func:`check_options`."""
        if OmegaConf.is_config(args):
            check_hydra_keys(args, cls._known_options(args._name))
            OmegaConf.set_struct(args, False)

        base_architecture(args)
        if not safe_hasattr(args, "max_positions"):  # as RoBERTa: the length of the task's samples
            tokens_per_sample = safe_getattr(task_options(task), "tokens_per_sample")
            args.max_positions = tokens_per_sample or task.max_positions()
        check_options(args, task)
        give_word_beginnings(task, task_options(task), args)
        if args.isolate_documents:
            isolate_documents(task)
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
        """As RoBERTa's; a head for texts gets what ``--pooling`` says.

        With ``word_starts`` the head gets the features there and no others.

        Args:
            word_starts (Tensor, optional): bool, the first pieces of words to be tagged.
        Shape:
            src_tokens, word_starts (B, L) -> the head's outputs (B, C), or (words, C), row by row.
        """
        if classification_head_name is None and word_starts is None:
            return super().forward(src_tokens, features_only, return_all_hiddens, **kwargs)
        features, extra = super().forward(src_tokens, True, return_all_hiddens, **kwargs)
        head = self.classification_heads[classification_head_name]
        if word_starts is not None:
            return head(features[word_starts]), extra
        return head_outputs(head, features, src_tokens.ne(self.encoder.padding_idx)), extra

    def register_classification_head(self, name, num_classes=None, inner_dim=None, **kwargs):
        """As fairseq's; the head gets what ``--pooling`` says."""
        args = self.args
        if args.pooling == CLS:
            super().register_classification_head(name, num_classes, inner_dim, **kwargs)
            return
        self.classification_heads[name] = MeanPoolingHead(
            args.encoder_embed_dim, inner_dim or args.encoder_embed_dim, num_classes,
            args.pooler_activation_fn, args.pooler_dropout,
            do_spectral_norm=args.spectral_norm_classification_head,
        )  # fmt: skip

    def register_tagging_head(self, name, num_classes):
        """As :meth:`register_classification_head`, for tags of words."""
        self.classification_heads[name] = TokenTaggingHead(
            self.args.encoder_embed_dim, num_classes, self.args.pooler_dropout
        )

    def upgrade_state_dict_named(self, state_dict, name):
        taken = take_tagging_heads(self, state_dict, f"{name}." if name else "")
        super().upgrade_state_dict_named(state_dict, name)
        state_dict.update(taken)

    @classmethod
    def _known_options(cls, arch):
        """The options that the flags and the preset of an architecture can set."""
        parser = argparse.ArgumentParser()
        cls.add_args(parser)
        known, _ = parser.parse_known_args([])
        ARCH_CONFIG_REGISTRY[arch](known)
        return known

    def train(self, mode: bool = True):
        super().train(mode)
        self._watch.mode(mode, self.encoder.sentence_encoder)
        return self

    def set_num_updates(self, num_updates):
        super().set_num_updates(num_updates)
        self._watch.set_num_updates(num_updates)

    def load_state_dict(self, state_dict, strict=True, *args, **kwargs):
        """As fairseq's, which edits ``state_dict``; logs which tensors of a whole were loaded.

        Loading a part (``strict=False``) is not logged: fairseq's moving average does so at
        every update.
        """
        check_pooling(self, state_dict, is_whole=strict)
        if not strict:
            return super().load_state_dict(state_dict, strict, *args, **kwargs)
        # of a head of another size fairseq keeps the model's; an older record is only shorter
        given = {name: tensor.shape for name, tensor in state_dict.items()}
        self.encoder.check_whole(state_dict, "encoder.")
        result = super().load_state_dict(state_dict, strict, *args, **kwargs)
        self._watch.loaded()
        own = {name: tensor.shape for name, tensor in self.state_dict().items()}
        new = [
            name
            for name, shape in own.items()
            if name not in given or (given[name] != shape and not name.endswith("_version"))
        ]
        logger.info(
            "loaded %d of %d tensors; newly initialized: %s; in the file, but not in the model: %s",
            len(own) - len(new),
            len(own),
            ", ".join(new) or "none",
            ", ".join(name for name in given if name not in own) or "none",
        )
        return result

    def max_positions(self):
        """The longest sequence; refuses what :meth:`RunWatch.check_restored` refuses."""
        self._watch.check_restored()
        return super().max_positions()

    @classmethod
    def from_pretrained(
        cls, model_name_or_path, checkpoint_file="model.pt", data_name_or_path=".", **kwargs
    ):
        """As RoBERTa's, but safe with a file from a stranger, see :func:`restore`.

        It uses the vocabulary that is next to the checkpoint, or with the data: a SentencePiece
        model, or what tupe-convert recorded.  RoBERTa's own default is GPT-2's encoding, whose
        files it downloads.

        Args:
            model_name_or_path (str): a folder; nothing is downloaded or unpacked.
            checkpoint_file (str): the name of the checkpoint in it.
            data_name_or_path (str): the folder with dict.txt; relative to the first if it begins
                with a dot.
            kwargs: options in place of the file's, and fairseq's ``bpe``, ``tokenizer`` and
                ``user_dir``.
        Returns:
            TupeRobertaHub: fairseq's hub interface, and ours for positions and attention.
        Raises:
            FileNotFoundError: if a folder or file is missing.
            CheckpointError: if the checkpoint is refused or damaged.
        """
        folder, data = model_name_or_path, data_name_or_path
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"{folder} is not a folder; give the folder of a checkpoint")
        if data.startswith("."):
            data = os.path.abspath(os.path.join(folder, data))
        for name, option in ENCODING_FILES.items():
            if os.path.exists(os.path.join(folder, name)):
                kwargs[option] = os.path.join(folder, name)
        bpe = None if "bpe" in kwargs else recorded_bpe(folder, data)
        kwargs.setdefault("bpe", "sentencepiece" if "sentencepiece_model" in kwargs else None)
        if kwargs.get("user_dir") is not None:
            import_user_module(argparse.Namespace(user_dir=kwargs["user_dir"]))
        kwargs = {"load_checkpoint_heads": True, **kwargs, "data": data}
        model, config, task = restore(os.path.join(folder, checkpoint_file), kwargs)
        hub = TupeRobertaHub(config, task, model)
        hub.bpe = bpe or hub.bpe
        hub.places = [data, folder]
        return hub


def base_architecture(args):
    args.position_encoding = safe_getattr(args, "position_encoding") or "tupe"
    given = {name: safe_getattr(args, name) for name in POSITION_OPTIONS}
    # only together with the options that they need: otherwise they would look as if given by the
    # user
    dependent = get_position_encoding(args.position_encoding).defaults(given)
    for name, option in POSITION_OPTIONS.items():
        default = dependent.get(name, option.default)
        if default is not None:
            setattr(args, name, safe_getattr(args, name, default))
    args.attn_impl = safe_getattr(args, "attn_impl", "auto")
    args.pooling = safe_getattr(args, "pooling", CLS)
    args.unpad = safe_getattr(args, "unpad", False)
    args.isolate_documents = safe_getattr(args, "isolate_documents", False)
    args.compile_layers = safe_getattr(args, "compile_layers", False)
    args.pooler_dropout = safe_getattr(args, "pooler_dropout", 0.1)  # the authors'; RoBERTa's is 0
    args.no_token_positional_embeddings = safe_getattr(args, "no_token_positional_embeddings", True)
    args.offload_activations = safe_getattr(args, "offload_activations", False)
    args.checkpoint_activations = (
        safe_getattr(args, "checkpoint_activations", False) or args.offload_activations
    )
    args.min_params_to_wrap = safe_getattr(args, "min_params_to_wrap", DEFAULT_MIN_PARAMS_TO_WRAP)
    # without the key, a checkpoint of a Hydra run would lose its heads in from_pretrained
    args.load_checkpoint_heads = safe_getattr(args, "load_checkpoint_heads", False)
    roberta_base_architecture(args)


def _sized(args, size):
    layers, embed_dim, heads = size
    args.encoder_layers = safe_getattr(args, "encoder_layers", layers)
    args.encoder_embed_dim = safe_getattr(args, "encoder_embed_dim", embed_dim)
    args.encoder_ffn_embed_dim = safe_getattr(args, "encoder_ffn_embed_dim", 4 * embed_dim)
    args.encoder_attention_heads = safe_getattr(args, "encoder_attention_heads", heads)
    base_architecture(args)


for _arch, _size in ARCHITECTURES.items():
    register_model_architecture("tupe_roberta", _arch)(partial(_sized, size=_size))
