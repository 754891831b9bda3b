"""Reads a model folder of the transformers library, ours or a RoBERTa's, without its code."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from tupe_fairseq.checkpoint.allowed_options import in_brief
from tupe_fairseq.checkpoint.checkpoint import CheckpointError, check_tensors
from tupe_fairseq.checkpoint.convert import fine_tuning_options
from tupe_fairseq.checkpoint.foreign_model import ForeignModel
from tupe_fairseq.checkpoint.from_authors import HIDDEN_SYMBOLS
from tupe_fairseq.checkpoint.state_dict import EMBEDDING, classification_heads
from tupe_fairseq.export import folder_config, from_roberta_folder
from tupe_fairseq.export.folder_dictionary import folder_lines
from tupe_fairseq.export.folder_labels import head_name, kind_of_head, label_lines
from tupe_fairseq.export.folder_tensors import from_folder
from tupe_fairseq.export.folder_weights import read_weights
from tupe_fairseq.export.fresh_lm_head import lacks_lm_head, with_lm_head
from tupe_fairseq.export.unlisted_pieces import FIELD, unlisted_in, without_unlisted_rows
from tupe_fairseq.files.record import read_record
from tupe_fairseq.labelled.task_description import CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING

CONFIG = "config.json"
# what fairseq's models have no place for: beginnings of names, and what they are
_LEFT_OUT = {"qa_outputs.": "the question-answering head"}
# the layer of a head of tokens, which is the last one of fairseq's
_OF_TOKENS = {f"classifier.{part}": f"classifier.out_proj.{part}" for part in ("weight", "bias")}
# what fairseq's task is called, and its options, by the kind of the head
_TASKS: dict[str, dict[str, Any]] = {
    CLASSIFICATION: {},
    REGRESSION: {"regression_target": True},
    MULTILABEL: {"task": "glue_sentence_prediction", "multilabel": True},
    TAGGING: {"task": "token_tagging"},
}


class _Kind(NamedTuple):
    """A model type.

    Args:
        options (callable): config.json and its path -> the options of tupe_roberta.
        rename (callable): tensors, the name of the head and whether the LM head is tied -> the
            state dict of tupe_roberta.
        prefix (str): of the names of the encoder's tensors, which a model without a head leaves
            out.
    """

    options: Callable[[dict[str, Any], str], Any]
    rename: Callable[[dict[str, Tensor], str, bool], dict[str, Tensor]]
    prefix: str


_KINDS = {
    "tupe": _Kind(folder_config.from_config, from_folder, "tupe."),
    "roberta": _Kind(
        from_roberta_folder.convert_options, from_roberta_folder.rename_tensors, "roberta."
    ),
}


def read_folder(
    folder: str,
    given_lines: list[str] | None = None,
    given_labels: list[str] | None = None,
    numbers: dict[str, int] | None = None,
) -> ForeignModel:
    """Read a folder as tupe-export, ``save_pretrained`` or ``Trainer`` write it.

    Args:
        folder (str): it holds config.json, the weights as safetensors, and dict.txt or
            tokenizer.json.
        given_lines (list of str, optional): of the dict.txt to use instead (``--dict``).
        given_labels (list of str, optional): of the label/dict.txt to use instead of ``id2label``
            (``--label-dict``).
        numbers (dict, optional): of GPT-2's pieces, without which its tokenizer.json does not tell
            the words of its dict.txt.
    Raises:
        OSError: if a file is missing or cannot be read.
        ValueError: if one is damaged, the model is of another type, or its parts do not belong
            together.
    """
    path = os.path.join(folder, CONFIG)
    if not os.path.lexists(path):
        raise FileNotFoundError(
            f"{path} is missing; give a folder as tupe-export or save_pretrained writes it"
        )
    config = read_record(path, dict)
    name = config.get("model_type")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise CheckpointError(
            f"{path}: model_type is {in_brief(name)}; only {' and '.join(_KINDS)} can be converted"
        )
    options, found = kind.options(config, path), read_weights(folder)
    of_tokens = any(name in found for name in _OF_TOKENS)
    head = head_name(config, path, of_tokens)
    kept, remarks = _with_a_place(found, kind.prefix)
    kept = check_tensors(kept, folder)
    if FIELD in config:
        kept = without_unlisted_rows(kept, unlisted_in(config, path))
    tensors = kind.rename(kept, head, not options.untie_weights_roberta)
    if lacks_lm_head(tensors):
        tensors = with_lm_head(tensors)
        remarks.append(
            "THE FOLDER HAS NO LM HEAD (classifiers are saved without): model.pt has a new one, "
            "which must be trained before it can fill in masks"
        )
    lines = folder_lines(folder, config, len(tensors.get(EMBEDDING, ())), given_lines, numbers)
    words = [line.rpartition(" ")[0] for line in lines]
    outputs, labels = classification_heads(tensors).get(head), None
    if outputs is None and given_labels is not None:
        raise CheckpointError(f"--label-dict is given, but {folder} has no classification head")
    if outputs is None or of_tokens:  # the folder's own classes for these read no pooling either
        vars(options).pop("pooling", None)
    if outputs is not None:
        task = kind_of_head(config, outputs, of_tokens)
        options = fine_tuning_options(options, head, outputs, **_TASKS[task])
        if task != REGRESSION:
            labels = label_lines(config, outputs, given_labels, path)
    return ForeignModel(
        origin=f"the transformers library ({name})",
        found=len(found),
        tensors=tensors,
        options=options,
        lines=lines,
        is_authors=tuple(words[: len(HIDDEN_SYMBOLS)]) == HIDDEN_SYMBOLS,
        words=words,
        head=None if outputs is None else head,
        labels=labels,
        remarks=remarks,
    )


def _with_a_place(found: dict[str, Tensor], prefix: str) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors that a checkpoint has a place for, and what is said of the others."""
    if not any(name.startswith(prefix) for name in found):
        found = {prefix + name: tensor for name, tensor in found.items()}
    left_out = {f"{prefix}pooler.": "the pooler", **_LEFT_OUT}
    kept, said = {}, {}
    for name, tensor in found.items():
        words = [words for start, words in left_out.items() if name.startswith(start)]
        said.update(dict.fromkeys(words))
        # a buffer with the numbers 0, 1, ..., which old files have
        if not words and name != f"{prefix}embeddings.position_ids":
            kept[_OF_TOKENS.get(name, name)] = tensor
    return kept, [f"left out {words}: fairseq's models have no place for it" for words in said]
