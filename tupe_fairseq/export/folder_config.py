"""What each option of a checkpoint is called in a folder's config.json, in both directions."""

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

from tupe_fairseq.checkpoint.allowed_options import checked_options, in_brief
from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.export.model_types import MODEL_TYPE
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, MASK
from tupe_fairseq.labelled.task_description import CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING
from tupe_fairseq.options import POSITION_OPTIONS
from tupe_fairseq.version import __version__

#: name in config.json, name among fairseq's options
NAMES = {
    "hidden_size": "encoder_embed_dim",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
    "intermediate_size": "encoder_ffn_embed_dim",
    "max_position_embeddings": "max_positions",
    "hidden_act": "activation_fn",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "activation_dropout": "activation_dropout",
    "classifier_dropout": "pooler_dropout",
    "pooler_activation": "pooler_activation_fn",
    "classifier_pooling": "pooling",
    "normalize_before": "encoder_normalize_before",
    "position_encoding": "position_encoding",
    **{name: name for name in POSITION_OPTIONS},
}
# those that may be null, or missing: then they are not given
_OPTIONAL = {"classifier_dropout", "classifier_pooling", *POSITION_OPTIONS}
_AUTO_MAP = {
    "AutoConfig": "configuration_tupe.TupeConfig",
    "AutoModel": "modeling_tupe.TupeModel",
    "AutoModelForMaskedLM": "modeling_tupe.TupeForMaskedLM",
    "AutoModelForSequenceClassification": "modeling_tupe.TupeForSequenceClassification",
    "AutoModelForTokenClassification": "modeling_tupe.TupeForTokenClassification",
    "AutoModelForQuestionAnswering": "modeling_tupe.TupeForQuestionAnswering",
}
#: transformers' names for what whole texts are given
PROBLEM_TYPES = {
    CLASSIFICATION: "single_label_classification",
    REGRESSION: "regression",
    MULTILABEL: "multi_label_classification",
}


class Head(NamedTuple):
    """A classification head.

    Args:
        name (str): its name in the checkpoint.
        labels (list of str): the names of its classes, in order; of a regression one, the score's.
        kind (str): of its task, one of :data:`tupe_fairseq.labelled.task_description.KINDS`.
    """

    name: str
    labels: list[str]
    kind: str

    @property
    def of_tokens(self) -> bool:
        """Whether it gives each token something, rather than the whole text."""
        return self.kind == TAGGING

    @property
    def suffix(self) -> str:
        """How transformers' classes with such a head end."""
        return "ForTokenClassification" if self.of_tokens else "ForSequenceClassification"


def token_ids(symbols: Sequence[str]) -> dict[str, int]:
    """The ids of the special tokens, under their names in config.json.

    Args:
        symbols (sequence of str): those of fairseq's dictionary, ``<mask>`` included.
    """
    names = ("bos_token_id", "pad_token_id", "eos_token_id")
    ids = {name: symbols.index(symbol) for name, symbol in zip(names, BUILT_IN_SYMBOLS)}
    return {**ids, "mask_token_id": symbols.index(MASK)}


def to_config(
    options: Any, symbols: Sequence[str], vocabulary_version: int, head: Head | None = None
) -> dict[str, Any]:
    """The content of config.json.

    Args:
        options (Namespace or DictConfig): of a tupe_roberta model, presets applied.
        symbols (sequence of str): those of fairseq's dictionary, ``<mask>`` included.
        vocabulary_version (int): the hash of them that the checkpoint records.
        head (Head, optional): the classification head that the folder has.
    """
    given = {name: getattr(options, option, None) for name, option in NAMES.items()}
    for name, option in POSITION_OPTIONS.items():
        if given[name] is None:
            given[name] = option.default
    architecture = "TupeForMaskedLM" if head is None else f"Tupe{head.suffix}"
    return {
        "architectures": [architecture],
        "model_type": MODEL_TYPE,
        "auto_map": dict(_AUTO_MAP),
        "vocab_size": len(symbols),
        **given,
        "tie_word_embeddings": not getattr(options, "untie_weights_roberta", False),
        "initializer_range": 0.02,
        **token_ids(symbols),
        **({} if head is None else head_fields(head)),
        "dtype": "float32",
        "vocabulary_version": int(vocabulary_version),
        "tupe_fairseq_version": __version__,
    }


def head_fields(head: Head) -> dict[str, Any]:
    """What config.json says of a classification head."""
    return {
        "classification_head_name": head.name,
        "id2label": {str(number): label for number, label in enumerate(head.labels)},
        "label2id": {label: number for number, label in enumerate(head.labels)},
        **({"problem_type": PROBLEM_TYPES[head.kind]} if head.kind in PROBLEM_TYPES else {}),
    }


def from_config(config: dict[str, Any], path: str) -> argparse.Namespace:
    """The options of the tupe_roberta checkpoint that a folder becomes.

    Args:
        config (dict): the content of config.json.
        path (str): its name, for messages.
    Raises:
        CheckpointError: if it is another model's, or a field is missing or not what it may be.
    """
    kind = config.get("model_type")
    if kind != MODEL_TYPE:
        raise CheckpointError(f"{path}: model_type is {in_brief(kind)}, not {MODEL_TYPE!r}")
    missing = [name for name in NAMES if name not in _OPTIONAL and config.get(name) is None]
    if missing:
        raise CheckpointError(f"{path} does not say {', '.join(missing)}")
    given = {option: config.get(name) for name, option in NAMES.items()}
    switches = {name: False for name, option in POSITION_OPTIONS.items() if option.default is False}
    tied = config.get("tie_word_embeddings")  # which transformers leaves out if it is true
    options = {
        "arch": "tupe_roberta",
        "task": "masked_lm",
        "tokens_per_sample": given["max_positions"],
        "attn_impl": "auto",
        "unpad": False,
        "compile_layers": False,
        "encoder_layerdrop": 0.0,
        "untie_weights_roberta": tied is False,
        **switches,
        **{name: value for name, value in given.items() if value is not None},
    }
    options = checked_options(options, path)
    return argparse.Namespace(**options, criterion="masked_lm", data=".")
