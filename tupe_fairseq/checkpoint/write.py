"""Unties a model's positions, and writes a model as a checkpoint."""

import argparse
import contextlib
import logging
import os
from collections.abc import Sequence
from dataclasses import replace

import torch

from tupe_fairseq.checkpoint.checkpoint import EMBEDDING, ENCODER, LM_HEAD, CheckpointError
from tupe_fairseq.checkpoint.model import Model
from tupe_fairseq.data.dictionary import BOS, DICTIONARY, PAD
from tupe_fairseq.data.tokenizer import (
    VOCABULARY,
    VOCABULARY_FILES,
    Tokenizer,
    copy_vocabulary,
    find_record,
    recorded_files,
)
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.files import atomic_write, new_output_folder, read_json, write_json
from tupe_fairseq.labelled.task import Task
from tupe_fairseq.modules.record import RECORD
from tupe_fairseq.options import POSITION_OPTIONS, TupeConfig, flag

logger = logging.getLogger(__name__)

#: the file that tupe-convert and tupe-extend write
MODEL = "model.pt"


def untied(model: Model) -> Model:
    """Keep words, layers and heads of a model with learned positions; add a new position bias.

    The mean position vector is added to word embeddings, the one of position 0 to ``<s>``. Queries
    and keys are scaled for TUPE's 1 / sqrt(2 d).
    """
    old = model.options
    extra = [flag(name) for name in POSITION_OPTIONS if getattr(old, name, None)]
    if old.position_encoding != "learned" or extra:
        raise CheckpointError(
            "--untie starts from learned positions without further options, but this model has "
            + " ".join([old.position_encoding, *extra])
        )
    options = argparse.Namespace(**{**vars(old), "position_encoding": "tupe"})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        encoder = TupeEncoder(TupeConfig.from_roberta_options(options))
    tensors = {name: tensor.clone() for name, tensor in model.tensors.items()}
    table, words = tensors.pop(f"{ENCODER}position_bias.pos.weight"), tensors[EMBEDDING]
    padding, cls = words[PAD].clone(), words[BOS] + table[0]
    words += table[1:].mean(0)
    words[BOS], words[PAD] = cls, padding
    for name, tensor in tensors.items():
        if name.startswith(ENCODER) and ".self_attn.in_proj_" in name:
            tensor[: len(tensor) // 3 * 2] *= 2**0.25  # once in the queries, once in the keys
    for name, tensor in encoder.state_dict().items():
        if name == RECORD or name.startswith("position_bias."):
            tensors[ENCODER + name] = tensor
    if not options.untie_weights_roberta:
        tensors[LM_HEAD + "weight"] = words
    remark = "TUPE-A WITH NEW POSITIONS: train it further before you use it"
    remarks = [*model.remarks, remark]
    return replace(model, tensors=tensors, options=options, remarks=remarks)


def set_head(
    model: Model, head: str, num_classes: int, task: str = "sentence_prediction", **switches: bool
) -> None:
    """Set the options to the task that a fine-tuned head was trained for."""
    fine_tuning = {
        "task": task,
        "criterion": task,
        "classification_head_name": head,
        "num_classes": num_classes,
        "init_token": 0,
        "separator_token": 2,
        "regression_target": False,  # fairseq takes a missing one for True
    }
    vars(model.options).update({**fine_tuning, **switches})


def output_of_model(
    path: str, sources: Sequence[str], overwrite: bool
) -> contextlib.AbstractContextManager[str]:
    """The folder for :func:`save_model`. Open it before a large model is read."""
    options = {"others": VOCABULARY_FILES, "overwrite": overwrite}
    return new_output_folder(path, MODEL, sources=sources, **options)


def save_model(
    model: Model,
    folder: str,
    *,
    vocabulary: tuple[str, Sequence[str]] | None = None,
    cleaning: dict[str, bool] | None = None,
    sources: Sequence[str] = (),
) -> None:
    """Write model.pt, its dictionaries and its vocabulary.

    Args:
        vocabulary: its kind and its files.
        cleaning: of texts, as vocabulary.json records it.
        sources: instead, folders with the vocabulary, labels and report.json; the first one wins.
    """
    options, recorded = model.options, find_record(sources)
    Task.find(*sources)  # refuses labels that are not the checkpoint's
    for source in reversed(sources):
        copy_vocabulary(source, folder)
    dictionaries = {DICTIONARY: model.lines}
    if "masked_lm" not in options.task:
        dictionaries[os.path.join("input0", DICTIONARY)] = model.lines
    if model.labels is not None:
        # unchanged: both loaders subtract their own number of built-in symbols from a label
        dictionaries[os.path.join("label", DICTIONARY)] = model.labels
    for name, lines in dictionaries.items():
        with atomic_write(os.path.join(folder, name)) as file:
            file.writelines(f"{line}\n" for line in lines)
    record = os.path.join(folder, VOCABULARY)
    if vocabulary is not None:
        Tokenizer(*vocabulary, os.path.join(folder, DICTIONARY), cleaning or {}).copy_to(folder)
    elif recorded[0] is not None:  # a vocabulary that does not load must not be passed on
        kind, files = recorded[1]["kind"], recorded_files(*recorded)
        Tokenizer(kind, files, os.path.join(folder, DICTIONARY), {})
    if os.path.exists(record):
        write_json(record, {**read_json(record), "max_positions": options.max_positions})
    # a new training state: epoch 1, update 0, no optimizer state
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
    state = {
        "args": model.options,
        "model": model.tensors,
        "optimizer_history": [{**history, "num_updates": 0}],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "shuffle": True}},
        "last_optimizer_state": None,
    }
    with open(os.path.join(folder, MODEL), "wb") as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # on a full disk, torch cannot write the end of the file, too
            raise error.__context__ or error from None
    for remark in model.remarks:
        logger.info("%s", remark)
