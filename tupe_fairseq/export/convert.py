"""Converts checkpoints of other code, and folders of transformers: ``tupe-convert``."""

import argparse
import atexit
import logging
import os
import shutil
import tempfile

from tupe_fairseq.checkpoint.checkpoint import CheckpointError, loading
from tupe_fairseq.checkpoint.model import Model, complete, dictionary_lines
from tupe_fairseq.checkpoint.options import ConvertOptions
from tupe_fairseq.checkpoint.write import output_of_model, save_model, set_head, untied
from tupe_fairseq.data.dictionary import DICTIONARY
from tupe_fairseq.data.tokenizer import KINDS, VOCABULARY
from tupe_fairseq.export.read_folder import read_folder
from tupe_fairseq.files import read_json
from tupe_fairseq.flags import takes
from tupe_fairseq.labelled.task import Task, label_symbol

logger = logging.getLogger(__name__)


@takes(ConvertOptions)
def convert_checkpoint(options: ConvertOptions) -> argparse.Namespace:
    """Write a checkpoint of this project, as tupe-convert does; returns the model's options."""
    checkpoint, dictionary = options.checkpoint, options.dictionary
    vocabulary = options.vocabulary_files()
    with output_of_model(options.output_dir, [checkpoint], options.overwrite) as folder:
        sources, cleaning = [], None
        if os.path.isfile(os.path.join(checkpoint, "config.json")):
            if not vocabulary and not dictionary and (files := _gpt2_files(checkpoint)):
                vocabulary = "gpt2", files
            is_gpt2 = vocabulary is not None and vocabulary[0] == "gpt2"
            numbers = read_json(vocabulary[1][0]) if is_gpt2 else None
            if options.label_dict is not None:
                raise ValueError("--label-dict is for a checkpoint; a folder has its labels")
            model = read_folder(checkpoint, dictionary, numbers)
            tokenizer = os.path.join(checkpoint, "tokenizer.json")
            if vocabulary is not None and os.path.isfile(tokenizer):
                from tupe_fairseq.export.tokenizer import read_cleaning

                cleaning = read_cleaning(tokenizer)
            if vocabulary is None and has_vocabulary(checkpoint):
                sources = [checkpoint]
                task, labels = Task.find(checkpoint), model.labels
                if task and labels and [f"{label_symbol(x)} 1" for x in task.labels] != labels:
                    raise ValueError(f"{checkpoint}: report.json and config.json differ in labels")
                if task and task.kind.is_own:  # config.json does not know it
                    own, name = task.kind, model.options.classification_head_name
                    switches = {**dict.fromkeys(own.switches, True), "kind": own.name}
                    set_head(model, name, task.num_classes, own.fairseq_task, **switches)
        else:
            path = dictionary or os.path.join(os.path.dirname(checkpoint), DICTIONARY)
            if os.path.isfile(checkpoint) and not os.path.isfile(path):
                raise FileNotFoundError(
                    f"{path} is missing; give --dictionary, the dict.txt of the model"
                )
            model = Model.read(checkpoint, path)
            if not model.origin and not options.untie:
                raise ValueError(
                    f"{checkpoint} is a checkpoint of this project; use it without converting, or "
                    "turn one with learned positions into TUPE with --untie"
                )
            if options.label_dict is not None:
                _set_labels(model, options.label_dict)
        if options.untie:
            with loading(checkpoint):
                model = untied(model)
            complete(model)
        save_model(model, folder, vocabulary=vocabulary, cleaning=cleaning, sources=sources)
    logger.info("%d tensors of %s, float32", len(model.tensors), model.origin or "this project")
    logger.info("classification heads: %s", model.heads or "none")
    return model.options


def _set_labels(model: Model, path: str) -> None:
    """Give a model that other code fine-tuned the labels of a label/dict.txt."""
    if not model.origin:
        raise ValueError(f"--label-dict is for other code's checkpoints; {model.path} needs none")
    usual = "sentence_classification_head"
    name = getattr(model.options, "classification_head_name", usual)
    heads, model.labels = model.heads, dictionary_lines(path)
    if name not in heads:
        raise CheckpointError(
            f"--label-dict is given, but {model.path} has no classification head {name!r}; it has "
            f"{', '.join(heads) or 'none'}"
        )
    if len(model.labels) < heads[name]:
        raise CheckpointError(
            f"{path} lists {len(model.labels)} labels, but head {name!r} has {heads[name]} outputs"
        )
    set_head(model, name, heads[name])


def has_vocabulary(folder: str) -> bool:
    """Whether a folder has the vocabulary of tupe-export; an incomplete one is refused."""
    if os.path.isfile(os.path.join(folder, VOCABULARY)):
        return True
    files = [name for names, _ in KINDS.values() for name in names]
    there = [name for name in files if os.path.isfile(os.path.join(folder, name))]
    if there:
        raise FileNotFoundError(
            f"{folder} has {there[0]}, but no {VOCABULARY}, which says how text is cleaned; copy "
            "it there from the folder of tupe-export"
        )
    return False


def _gpt2_files(folder: str) -> list[str] | None:
    """The files of GPT-2's byte-level BPE, from the tokenizer.json of a RoBERTa folder."""
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.isfile(path):
        return None
    from tokenizers import pre_tokenizers

    from tupe_fairseq.export.tokenizer import read_tokenizer

    tokenizer = read_tokenizer(path)
    names = ("vocab.json", "merges.txt", DICTIONARY)
    *has_files, has_dictionary = (os.path.isfile(os.path.join(folder, name)) for name in names)
    # beside RoBERTa's own files, dict.txt has GPT-2's ids; else it is the one of tupe-export
    is_of_export = has_dictionary and not any(has_files)
    if is_of_export or not isinstance(tokenizer.pre_tokenizer, pre_tokenizers.ByteLevel):
        return None
    extracted = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, extracted, ignore_errors=True)
    return tokenizer.model.save(extracted)
