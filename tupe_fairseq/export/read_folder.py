"""Reads a TUPE or RoBERTa folder of transformers without running its code."""

import argparse
import os
from typing import Any

import torch
from torch import Tensor, nn

from tupe_fairseq.checkpoint.checkpoint import (
    EMBEDDING,
    LM_HEAD,
    TAGGING_HEAD,
    check_finite,
    check_tensors,
    loading,
    symbols_of,
)
from tupe_fairseq.checkpoint.fit import check_vocabulary
from tupe_fairseq.checkpoint.model import Model, complete, dictionary_lines
from tupe_fairseq.checkpoint.untrusted_options import checked_options
from tupe_fairseq.checkpoint.write import set_head
from tupe_fairseq.data.dictionary import DICTIONARY
from tupe_fairseq.export.names import Head, from_config, from_transformers
from tupe_fairseq.export.write_folder import WEIGHTS, without_unlisted
from tupe_fairseq.files import read_json
from tupe_fairseq.kinds import kind_of_head
from tupe_fairseq.labelled.task import label_symbol
from tupe_fairseq.modules.heads import LMHead

# tensors that fairseq's models have no place for
_LEFT_OUT = ("pooler.", "embeddings.position_ids", "qa_outputs.")


def read_folder(folder: str, dictionary: str | None, numbers: dict[str, int] | None) -> Model:
    """Read a folder that tupe-export, ``save_pretrained`` or ``Trainer`` has written.

    Args:
        dictionary: the dict.txt to use instead of the folder's.
        numbers: the ids of GPT-2's tokens, for a folder that only has a tokenizer, no dictionary.
    """
    path = os.path.join(folder, "config.json")
    config = read_json(path)
    options = {"arch": "tupe_roberta", **from_config(config, path)}
    weights = _read_weights(folder)
    is_choice = str(config.get("architectures")).endswith("ForMultipleChoice']")
    parts = (*_LEFT_OUT, *["classifier."] * is_choice)
    left_out = [name for name in weights if any(part in name for part in parts)]
    remarks = [f"left out {name}: fairseq's models have no place for it" for name in left_out]
    tensors = {name: x for name, x in weights.items() if name not in left_out}
    tensors = check_tensors(tensors, folder)
    check_finite(tensors, folder)

    with loading(path):
        head = _head(config, tensors, path)
    with loading(folder):
        tied = not options["untie_weights_roberta"]
        state = from_transformers(tensors, config["model_type"], head, tied)
        if LM_HEAD + "dense.weight" not in state:
            state = _with_lm_head(state)
            remarks.append(
                "THE FOLDER HAS NO LM HEAD (classifiers are saved without one): model.pt has a new "
                "one, which must be trained before it can fill in masks"
            )
        if config.get("unlisted_pieces"):
            state = without_unlisted(state, config["unlisted_pieces"])
    lines = _dictionary(folder, config, len(state[EMBEDDING]), dictionary, numbers)
    if head is None or head.kind.of_words:
        options.pop("pooling", None)
    if head is not None:
        options["classification_head_name"] = head.name
    options = checked_options(options, path)
    model = Model(folder, argparse.Namespace(**options), state, lines, remarks=remarks)
    model.origin = f"the transformers library ({config['model_type']})"
    if head is not None:
        if head.kind.has_labels:
            model.labels = [f"{label_symbol(label)} 1" for label in head.labels]
        switches = dict.fromkeys(head.kind.switches, True)
        set_head(model, head.name, len(head.labels), head.kind.converted_task, **switches)
    complete(model)
    return model


def _read_weights(folder: str) -> dict[str, Tensor]:
    import safetensors
    from safetensors.torch import load_file

    path = os.path.join(folder, WEIGHTS)
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"{path} is missing; save the model with save_pretrained, as one file of safetensors"
        )
    try:
        return load_file(path)
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _head(config: dict[str, Any], tensors: dict[str, Tensor], path: str) -> Head | None:
    of_tokens = "classifier.bias" in tensors
    bias = tensors.get("classifier.bias" if of_tokens else "classifier.out_proj.bias")
    if bias is None:
        return None
    kind = kind_of_head(len(bias), of_tokens, config.get("problem_type"))
    numbers = [str(number) for number in range(len(bias))]
    labels = config.get("id2label") or {number: f"LABEL_{number}" for number in numbers}
    if sorted(labels) != sorted(numbers) or len(set(labels.values())) < len(labels):
        raise ValueError(
            f"{path}: id2label must give each of the head's {len(bias)} outputs a different label, "
            f"but is {labels}"
        )
    usual = TAGGING_HEAD if of_tokens else "sentence_classification_head"
    name = config.get("classification_head_name") or usual
    return Head(name, [labels[number] for number in numbers], kind)


def _with_lm_head(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with a new LM head, initialized as in RoBERTa, with a fixed seed."""
    size, dim = state[EMBEDDING].shape
    head = LMHead(dim, size, "gelu", nn.Parameter(state[EMBEDDING]))
    nn.init.normal_(head.dense.weight, std=0.02, generator=torch.Generator().manual_seed(1))
    nn.init.zeros_(head.dense.bias)
    return {**state, **{LM_HEAD + name: tensor for name, tensor in head.state_dict().items()}}


def _dictionary(
    folder: str,
    config: dict[str, Any],
    rows: int,
    dictionary: str | None,
    numbers: dict[str, int] | None,
) -> list[str]:
    """The lines of the model's dict.txt, or if there is none, from the folder's tokenizer."""
    path, tokenizer = dictionary or os.path.join(folder, DICTIONARY), f"{folder}/tokenizer.json"
    # with GPT-2's tokens, dict.txt lists ids, which may be different ones
    if not dictionary and os.path.exists(tokenizer) and (numbers or not os.path.exists(path)):
        from tupe_fairseq.export.tokenizer import dictionary_words

        words = dictionary_words(tokenizer, config.get("unlisted_pieces", 0), numbers)
        path, lines = tokenizer, [f"{word} 1" for word in words]
    elif os.path.exists(path):
        lines = dictionary_lines(path)
    else:
        raise FileNotFoundError(f"{path} is missing; give --dictionary, the model's dict.txt")
    with loading(folder):
        version = config.get("vocabulary_version") or None
        check_vocabulary((rows, version), symbols_of(lines), path)
    return lines
