"""Reads a transformers model directory, TUPE or RoBERTa, without running code that it holds."""

import argparse
import json
import os
from typing import Any

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.allowed_options import checked_options
from tupe_fairseq.checkpoint.checkpoint import check_tensors
from tupe_fairseq.checkpoint.convert import convert_dictionary, fine_tuning_options
from tupe_fairseq.checkpoint.foreign_model import ForeignModel
from tupe_fairseq.checkpoint.from_authors import HIDDEN_SYMBOLS
from tupe_fairseq.checkpoint.state_dict import (
    EMBEDDING,
    TAGGING_HEAD,
    symbols_of,
    vocabulary_version,
)
from tupe_fairseq.data.dictionary import DICTIONARY
from tupe_fairseq.data.task import (
    CLASSIFICATION,
    MULTILABEL,
    REGRESSION,
    TAGGING,
    label_symbol,
)
from tupe_fairseq.export.names import (
    LM_WEIGHT,
    PROBLEM_TYPES,
    Head,
    from_config,
    from_transformers,
)
from tupe_fairseq.export.write_folder import WEIGHTS, without_unlisted
from tupe_fairseq.files.text_lines import read_lines
from tupe_fairseq.options import POSITION_OPTIONS

# fairseq's task for each kind of head, and its options
_TASKS: dict[str, dict[str, Any]] = {
    CLASSIFICATION: {},
    REGRESSION: {"regression_target": True},
    MULTILABEL: {"task": "glue_sentence_prediction", "multilabel": True},
    TAGGING: {"task": "token_tagging"},
}
# what fairseq's models have no place for
_LEFT_OUT = ("pooler.", "qa_outputs.", "embeddings.position_ids")
_SEED = 1  # the same folder becomes the same checkpoint


def read_folder(
    folder: str,
    given_lines: list[str] | None = None,
    given_labels: list[str] | None = None,
    numbers: dict[str, int] | None = None,
) -> ForeignModel:
    """Read a folder as tupe-export, ``save_pretrained`` or ``Trainer`` write it.

    Args:
        given_lines: of the dict.txt to use instead of the folder's.
        given_labels: of the label/dict.txt to use instead of ``id2label``.
        numbers: of GPT-2's tokens, for the dictionary of a folder that has a tokenizer alone.
    """
    path = os.path.join(folder, "config.json")
    config = _read_json(path)
    options = {**_defaults(), **from_config(config, path)}
    options["tokens_per_sample"] = options["max_positions"]
    found = _read_weights(folder)
    left_out = [name for name in found if any(part in name for part in _LEFT_OUT)]
    remarks = [f"left out {name}: fairseq's models have no place for it" for name in left_out]
    tensors = {name: x for name, x in found.items() if name not in left_out}
    tensors = check_tensors(tensors, folder)

    head, labels = _head(config, tensors, path), None
    tied = not options["untie_weights_roberta"]
    try:
        state = from_transformers(tensors, config["model_type"], head, tied)
    except KeyError as error:
        raise ValueError(f"{folder} has no tensor for {error}") from None
    if "encoder.lm_head.dense.weight" not in state:
        state = _with_lm_head(state)
        remarks.append(
            "THE FOLDER HAS NO LM HEAD (classifiers are saved without): model.pt has a new one, "
            "which must be trained before it can fill in masks"
        )
    if config.get("unlisted_pieces"):
        state = without_unlisted(state, config["unlisted_pieces"])
    lines = _dictionary(folder, config, len(state[EMBEDDING]), given_lines, numbers)

    if head is None or head.kind == TAGGING:
        options.pop("pooling", None)
    if head is not None:
        options["classification_head_name"] = head.name
    namespace = argparse.Namespace(
        **checked_options(options, path), criterion="masked_lm", data="."
    )
    if head is not None:
        count = len(head.labels)
        namespace = fine_tuning_options(namespace, head.name, count, **_TASKS[head.kind])
        if head.kind != REGRESSION:
            labels = given_labels or [f"{label_symbol(label)} 1" for label in head.labels]
            if len(labels) < count:
                raise ValueError(
                    f"--label-dict lists {len(labels)} labels, but the head has {count} outputs"
                )
    elif given_labels is not None:
        raise ValueError(f"--label-dict is given, but {folder} has no classification head")
    words = [line.rpartition(" ")[0] for line in lines]
    return ForeignModel(
        origin=f"the transformers library ({config['model_type']})",
        found=len(found),
        tensors=state,
        options=namespace,
        lines=lines,
        is_authors=tuple(words[: len(HIDDEN_SYMBOLS)]) == HIDDEN_SYMBOLS,
        words=words,
        head=head and head.name,
        labels=labels,
        remarks=remarks,
    )


def _defaults() -> dict[str, Any]:
    switches = [name for name, option in POSITION_OPTIONS.items() if option.default is False]
    return {
        "arch": "tupe_roberta",
        "task": "masked_lm",
        "attn_impl": "auto",
        "unpad": False,
        "compile_layers": False,
        "encoder_layerdrop": 0.0,
        **dict.fromkeys(switches, False),
    }


def _read_json(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path} is not a JSON file: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a JSON object")
    return content


def _read_weights(folder: str) -> dict[str, Tensor]:
    """model.safetensors, or the files that its index lists."""
    import safetensors
    from safetensors.torch import load_file

    names = [WEIGHTS]
    index = os.path.join(folder, f"{WEIGHTS}.index.json")
    if os.path.exists(index):
        names = sorted(set(_read_json(index).get("weight_map", {}).values()))
    tensors = {}
    for name in names:
        path = os.path.join(folder, name)
        if os.path.basename(name) != name or not os.path.isfile(path):
            raise FileNotFoundError(
                f"{path} is missing; save the model with save_pretrained, as safetensors"
            )
        try:
            tensors.update(load_file(path))
        except safetensors.SafetensorError as error:
            raise ValueError(f"{path} is damaged: {error}") from error
    return tensors


def _head(config: dict[str, Any], tensors: dict[str, Tensor], path: str) -> Head | None:
    of_tokens = "classifier.bias" in tensors
    bias = tensors.get("classifier.bias" if of_tokens else "classifier.out_proj.bias")
    if bias is None:
        return None
    kinds = {problem_type: kind for kind, problem_type in PROBLEM_TYPES.items()}
    kind = TAGGING if of_tokens else kinds.get(config.get("problem_type"), CLASSIFICATION)
    if kind == CLASSIFICATION and len(bias) == 1:
        kind = REGRESSION  # as in transformers
    numbers = [str(number) for number in range(len(bias))]
    labels = config.get("id2label") or {number: f"LABEL_{number}" for number in numbers}
    if sorted(labels) != sorted(numbers) or len(set(labels.values())) < len(labels):
        raise ValueError(
            f"{path}: id2label must give each of the head's {len(bias)} outputs another label, "
            f"but is {labels}"
        )
    usual = TAGGING_HEAD if of_tokens else "sentence_classification_head"
    name = config.get("classification_head_name") or usual
    return Head(name, [labels[number] for number in numbers], kind)


def _with_lm_head(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with a new LM head, as RoBERTa initializes it."""
    size, dim = state[EMBEDDING].shape
    generator = torch.Generator().manual_seed(_SEED)
    head = {
        "bias": torch.zeros(size),
        "dense.weight": torch.empty(dim, dim).normal_(0, 0.02, generator=generator),
        "dense.bias": torch.zeros(dim),
        "layer_norm.weight": torch.ones(dim),
        "layer_norm.bias": torch.zeros(dim),
    }
    new = {f"encoder.lm_head.{name}": tensor for name, tensor in head.items()}
    return {LM_WEIGHT: state[EMBEDDING], **state, **new}


def _dictionary(
    folder: str,
    config: dict[str, Any],
    rows: int,
    given: list[str] | None,
    numbers: dict[str, int] | None,
) -> list[str]:
    """The lines of the model's dict.txt; the folder's tokenizer tells them, if it has none."""
    path = os.path.join(folder, DICTIONARY)
    tokenizer = os.path.join(folder, "tokenizer.json")
    if given is not None:
        path, lines = "--dict", given
    elif os.path.exists(path) and not (numbers and os.path.exists(tokenizer)):
        lines = read_lines(path, path)
    elif os.path.exists(tokenizer):  # with GPT-2's tokens dict.txt lists ids, maybe others
        from tupe_fairseq.export.tokenizer import dictionary_words

        words = dictionary_words(tokenizer, config.get("unlisted_pieces", 0), numbers)
        path, lines = tokenizer, [f"{word} 1" for word in words]
    else:
        raise FileNotFoundError(f"{path} is missing; give --dict, the dict.txt of the model")
    lines = convert_dictionary(lines, path)
    symbols = symbols_of(lines)
    if rows != len(symbols):
        raise ValueError(
            f"{folder} has {rows} word vectors, but {path} has {len(symbols)} symbols; give --dict "
            "DICT.TXT, that of the model; a resized embedding cannot be converted"
        )
    if config.get("vocabulary_version", 0) not in (0, int(vocabulary_version(symbols))):
        raise ValueError(
            f"{path} is not the dictionary that {folder} was trained with; give --dict DICT.TXT"
        )
    return lines
