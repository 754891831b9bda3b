"""Converts the names of tensors and options between fairseq and transformers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.checkpoint import EMBEDDING, ENCODER, HEADS, LM_HEAD
from tupe_fairseq.checkpoint.checkpoint import vocabulary_version as hash_of
from tupe_fairseq.checkpoint.from_roberta import UNUSED_ROWS, stack_projections
from tupe_fairseq.data.dictionary import MASK, SPECIAL_TOKENS
from tupe_fairseq.kinds import Kind
from tupe_fairseq.options import POSITION_OPTIONS, other_values
from tupe_fairseq.version import __version__

TUPE, ROBERTA = MODEL_TYPES = ("tupe", "roberta")
LM_WEIGHT = LM_HEAD + "weight"
POSITIONS = ENCODER + "position_bias.pos.weight"
ROBERTA_POSITIONS = "roberta.embeddings.position_embeddings.weight"
#: fairseq, TUPE, RoBERTa: prefixes of names, then (with a dot first) parts of names in a layer
TENSORS = (
    (EMBEDDING, "tupe.embed_tokens.weight", "roberta.embeddings.word_embeddings.weight"),
    (POSITIONS, "tupe.encoder.position_bias.pos.weight", ROBERTA_POSITIONS),
    (
        ENCODER + "layernorm_embedding.",
        "tupe.encoder.layernorm_embedding.",
        "roberta.embeddings.LayerNorm.",
    ),
    (ENCODER + "layers.", "tupe.encoder.layers.", "roberta.encoder.layer."),
    (ENCODER, "tupe.encoder.", "roberta.encoder."),
    (LM_WEIGHT, "lm_head.decoder.weight", "lm_head.decoder.weight"),
    (LM_HEAD + "bias", "lm_head.decoder.bias", "lm_head.bias"),
    (LM_HEAD, "lm_head.", "lm_head."),
    (".self_attn.in_proj_", ".self_attn.in_proj.", ".attention.self."),
    (".self_attn.out_proj.", ".self_attn.out_proj.", ".attention.output.dense."),
    (".self_attn_layer_norm.", ".self_attn_layer_norm.", ".attention.output.LayerNorm."),
    (".fc1.", ".fc1.", ".intermediate.dense."),
    (".fc2.", ".fc2.", ".output.dense."),
    (".final_layer_norm.", ".final_layer_norm.", ".output.LayerNorm."),
)
PROJECTIONS = ("query.", "key.", "value.")
TOKEN_TYPES = "roberta.embeddings.token_type_embeddings.weight"

#: the name in config.json -> the name in fairseq
OPTIONS = {
    "hidden_size": "encoder_embed_dim",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
    "intermediate_size": "encoder_ffn_embed_dim",
    "max_position_embeddings": "max_positions",
    "hidden_act": "activation_fn",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "classifier_dropout": "pooler_dropout",
    "activation_dropout": "activation_dropout",
    "pooler_activation": "pooler_activation_fn",
    "classifier_pooling": "pooling",
    "normalize_before": "encoder_normalize_before",
    "position_encoding": "position_encoding",
    **{name: name for name in POSITION_OPTIONS},
}
#: options that a config.json may lack
OPTIONAL = ("classifier_dropout", "classifier_pooling", *POSITION_OPTIONS)
#: options in a RoBERTa's config.json
ROBERTA_FIELDS = tuple(OPTIONS)[:9]
#: what the options of a RoBERTa must be
ROBERTA_OPTIONS = {
    "activation_fn": "gelu",
    "activation_dropout": 0.0,
    "encoder_normalize_before": False,
    "position_encoding": "learned",
    **{name: option.default for name, option in POSITION_OPTIONS.items()},
}
ROBERTA_HEAD = {"pooler_activation_fn": "tanh", "pooling": "cls"}
#: what the other fields of its config.json must be
ROBERTA_CONFIG = {
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-5,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
}


@dataclass(frozen=True)
class Head:
    """A classification head: its name in fairseq, its labels in order, and its kind of task."""

    name: str
    labels: Sequence[str]
    kind: Kind


# ---- Tensors ------------------------------------------------------------------------------------


def to_transformers(
    state: dict[str, Tensor], model_type: str, head: Head | None = None, tied: bool = True
) -> dict[str, Tensor]:
    """A folder's float32 tensors, from a checkpoint's, without other heads or a tied LM matrix."""
    tensors = {}
    for name, tensor in state.items():
        is_other_head = name.startswith(HEADS) and (not head or name.split(".")[1] != head.name)
        without_lm = model_type == ROBERTA and head and name.startswith(LM_HEAD)
        is_tied = tied and name == LM_WEIGHT
        if name.endswith("_version") or is_tied or is_other_head or without_lm:
            continue
        renamed = _renamed(name, model_type, head)
        tensor = tensor.detach().float()
        if model_type == ROBERTA and ".in_proj_" in name:
            for part, rows in zip(PROJECTIONS, tensor.chunk(3)):
                tensors[renamed.replace(".self.", f".self.{part}")] = rows.clone()
        else:
            tensors[renamed] = tensor.contiguous().clone()
    if model_type == ROBERTA:
        unused = torch.zeros(UNUSED_ROWS, tensors[ROBERTA_POSITIONS].size(1))
        tensors[ROBERTA_POSITIONS] = torch.cat([unused, tensors[ROBERTA_POSITIONS]])
        tensors[TOKEN_TYPES] = unused[:1].clone()
    return tensors


def from_transformers(
    tensors: dict[str, Tensor], model_type: str, head: Head | None = None, tied: bool = True
) -> dict[str, Tensor]:
    """A checkpoint's tensors, without its records, from those of a folder."""
    if not any(name.startswith(f"{model_type}.") for name in tensors):  # a model without a head
        tensors = {f"{model_type}.{name}": tensor for name, tensor in tensors.items()}
    state, types = {}, tensors.get(TOKEN_TYPES)
    for name, tensor in tensors.items():
        if model_type == ROBERTA and name == "lm_head.decoder.bias":
            name = "lm_head.bias"  # if both are there, they are equal
        if name != TOKEN_TYPES:
            state[_renamed(name, model_type, head, back=True)] = tensor
    if model_type == ROBERTA:
        if types is not None and types[0].any():  # all tokens have type 0
            state[POSITIONS] = state[POSITIONS].float() + types[0].float()
        state[POSITIONS] = state[POSITIONS][UNUSED_ROWS:]
        stack_projections(state, [f"in_proj_{part}" for part in PROJECTIONS])
    if tied:
        state.setdefault(LM_WEIGHT, state[EMBEDDING])
    return state


def _renamed(name: str, model_type: str, head: Head | None, back: bool = False) -> str:
    """The name in transformers; with ``back``, the name in fairseq."""
    pairs = [(row[0], row[1 + MODEL_TYPES.index(model_type)]) for row in TENSORS]
    if head is not None:
        pairs.append((f"{HEADS}{head.name}.{'out_proj.' * head.kind.of_words}", "classifier."))
    pairs = [pair[::-1] for pair in pairs] if back else pairs
    begin = next((pair for pair in pairs if name.startswith(pair[0])), None)
    if begin is None:
        raise ValueError(f"the tensor {name} has no place in the model")
    name = name.replace(*begin, 1)
    # older TUPE folders have "in_proj_", like fairseq
    in_layer = next((pair for pair in pairs if pair[0][0] == "." and pair[0] in name), None)
    return name.replace(*in_layer, 1) if in_layer else name


# ---- Options ------------------------------------------------------------------------------------


def to_config(
    options: Any, symbols: Sequence[str], model_type: str = TUPE, head: Head | None = None
) -> dict[str, Any]:
    """The content of config.json for a tupe_roberta's options and all its symbols."""
    fields = {name: getattr(options, option, None) for name, option in OPTIONS.items()}
    fields = {name: value for name, value in fields.items() if value is not None}
    if model_type == ROBERTA:
        _check_is_roberta(options, head)
        fields = {name: x for name, x in fields.items() if name in ROBERTA_FIELDS}
        fields["max_position_embeddings"] += UNUSED_ROWS
        fields.update(ROBERTA_CONFIG, type_vocab_size=1)
    else:
        from tupe_fairseq.export.configuration_tupe import AUTO_MAP

        ids = map(symbols.index, (*SPECIAL_TOKENS[:3], MASK))
        names = ("bos_token_id", "pad_token_id", "eos_token_id", "mask_token_id")
        fields.update(zip(names, ids), auto_map=AUTO_MAP, tupe_fairseq_version=__version__)
    if head is not None:
        fields["classification_head_name"] = head.name
        fields["id2label"] = {str(number): label for number, label in enumerate(head.labels)}
        fields["label2id"] = {label: number for number, label in enumerate(head.labels)}
        if problem_type := head.kind.problem_type:
            fields["problem_type"] = problem_type
    suffix = head.kind.transformers_class if head else "ForMaskedLM"
    return {
        "architectures": [model_type.capitalize() + suffix],
        "model_type": model_type,
        "vocab_size": len(symbols),
        **fields,
        "tie_word_embeddings": not getattr(options, "untie_weights_roberta", False),
        "initializer_range": 0.02,
        "dtype": "float32",
        "vocabulary_version": int(hash_of(symbols)),
    }


def _check_is_roberta(options: Any, head: Head | None) -> None:
    of_head = {} if head is None or head.kind.of_words else ROBERTA_HEAD
    fixed = {**ROBERTA_OPTIONS, **of_head}
    for name, value in other_values(vars(options), fixed).items():
        raise ValueError(
            f"--model-type roberta: the checkpoint has {name} {value}, but transformers' RoBERTa "
            f"only supports {fixed[name] or 'none'}; export it without --model-type roberta"
        )


def from_config(config: dict[str, Any], path: str) -> dict[str, Any]:
    """fairseq's options from the content of config.json; their values are not checked yet."""
    model_type = config.get("model_type")
    if model_type not in MODEL_TYPES:
        raise ValueError(
            f"{path}: model_type is {model_type!r}; only {' and '.join(MODEL_TYPES)} can be read"
        )
    names = ROBERTA_FIELDS if model_type == ROBERTA else tuple(OPTIONS)
    missing = [name for name in names if name not in OPTIONAL and config.get(name) is None]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}")
    options = {OPTIONS[name]: config[name] for name in names if config.get(name) is not None}
    if model_type == ROBERTA:
        for name, value in other_values(config, ROBERTA_CONFIG).items():
            raise ValueError(
                f"{path}: {name} is {value!r}; the model can be read only if it is "
                f"{ROBERTA_CONFIG[name]!r}"
            )
        fixed = {name: x for name, x in ROBERTA_OPTIONS.items() if x is not None}
        options = {**fixed, **options, "pooler_activation_fn": "tanh"}
        options.setdefault("pooler_dropout", options["dropout"])
        if isinstance(options["max_positions"], int):
            options["max_positions"] -= UNUSED_ROWS
    if not options.get("rel_pos"):  # a config of a former TUPE-R still has them
        options.pop("rel_pos_buckets", None)
        if options["position_encoding"] != "shaw":
            options.pop("max_rel_pos", None)
    options["untie_weights_roberta"] = config.get("tie_word_embeddings") is False
    return options
