"""A model of this project as its checkpoint holds it: reads, completes and saves it."""

import argparse
import contextlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tupe_fairseq.checkpoint import from_authors, from_roberta
from tupe_fairseq.checkpoint.checkpoint import (
    EMBEDDING,
    ENCODER,
    HEADS,
    VOCABULARY,
    CheckpointError,
    check_finite,
    classification_heads,
    loading,
    read,
    symbols_of,
    vocabulary_version,
)
from tupe_fairseq.checkpoint.fit import check_fit, check_tied, check_vocabulary, recorded_vocabulary
from tupe_fairseq.checkpoint.untrusted_options import (
    DEFAULTS,
    checked_options,
    in_brief,
    own_options,
)
from tupe_fairseq.data.dictionary import DICTIONARY, word_ids
from tupe_fairseq.data.task import Task, trained_kind
from tupe_fairseq.data.tokenizer import VOCABULARY as VOCABULARY_RECORD
from tupe_fairseq.data.tokenizer import (
    VOCABULARY_FILES,
    Tokenizer,
    copy_vocabulary,
    find_record,
    recorded_files,
)
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.files import atomic_write, new_output_folder, read_json, write_json
from tupe_fairseq.modules.heads import (
    ACTIVATION_RECORD,
    POOLING_RECORD,
    LMHead,
    TaggingHead,
    TextHead,
    activation_record,
)
from tupe_fairseq.modules.record import RECORD, options_record
from tupe_fairseq.options import TupeConfig

logger = logging.getLogger(__name__)

#: the file that tupe-convert and tupe-extend write
MODEL = "model.pt"
# the sizes of stock RoBERTa base, which a file may leave out
_SIZES = {
    "encoder_layers": 12,
    "encoder_embed_dim": 768,
    "encoder_ffn_embed_dim": 3072,
    "encoder_attention_heads": 12,
}


@dataclass
class Model:
    """A model in the form of this project."""

    tensors: dict[str, Tensor]
    options: argparse.Namespace  # of tupe_roberta
    lines: list[str]  # of its dict.txt
    origin: str = ""  # what wrote it, in words; "" for this project
    labels: list[str] | None = None  # the lines of the label/dict.txt of a fine-tuned model
    # what is left out or added
    remarks: list[str] = field(default_factory=lambda: ["left out the training state"])


def read_model(path: str, dictionary: str, label_dict: str | None = None) -> Model:
    """Read a checkpoint of this project, of the TUPE authors or of fairseq's RoBERTa.

    Args:
        dictionary: its dict.txt.
        label_dict: the label/dict.txt of a model that other code fine-tuned.
    """
    checkpoint = read(path, finite=False)
    saved, tensors = checkpoint.options, checkpoint.tensors
    arch = saved["arch"] if isinstance(saved.get("arch"), str) else ""
    if arch.startswith("tupe_roberta"):
        check_finite(tensors, path)
        options = argparse.Namespace(**own_options(saved, tensors, path))
        lines = dictionary_lines(dictionary)
        with loading(path):
            check_vocabulary(recorded_vocabulary(tensors), symbols_of(lines), dictionary)
        return Model(tensors, options, lines)
    if arch.startswith("tupe_transformer"):
        raise CheckpointError(f"{path} is a decoder, {in_brief(arch)}; give a tupe_roberta")
    if arch.startswith("bert"):
        source: Any = from_authors
    elif arch.startswith("roberta") or arch == "xlm":
        source = from_roberta  # in stock fairseq, xlm is a size of RoBERTa
    else:
        raise CheckpointError(
            f"{path} is refused: its arch is {in_brief(saved.get('arch'))}, neither one of the "
            "TUPE authors' bert_* nor a stock fairseq roberta_*"
        )
    lines = dictionary_lines(dictionary, source.HIDDEN_SYMBOLS)
    with loading(path):
        tensors, options = source.rename_tensors(tensors), _options(saved, source)
        model = Model(tensors, options, lines, source.NAME)
        complete(model, dictionary)
    if label_dict is not None:
        model.labels = dictionary_lines(label_dict)
        name = saved.get("classification_head_name", "sentence_classification_head")
        heads = classification_heads(model.tensors)
        if name not in heads:
            raise CheckpointError(
                f"--label-dict is given, but {path} has no classification head {name!r}; it has "
                f"{', '.join(heads) or 'none'}"
            )
        if len(model.labels) < heads[name]:
            raise CheckpointError(
                f"{label_dict} lists {len(model.labels)} labels, but head {name!r} has "
                f"{heads[name]} outputs"
            )
        set_head(model, name, heads[name])
    return model


def dictionary_lines(path: str, hidden: Sequence[str] = ()) -> list[str]:
    """The lines of a dict.txt, with lines for hidden symbols before them."""
    listed = word_ids(path)
    for symbol in hidden:
        if symbol in listed:
            raise ValueError(f"{path} lists {symbol}, which the authors' code adds by itself")
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip() for line in file.read().split("\n")]
    return [*(f"{symbol} 0" for symbol in hidden), *filter(None, lines)]


def _options(saved: dict[str, Any], source: Any) -> argparse.Namespace:
    """The options of the tupe_roberta that equals a model of other code."""
    defaults = {**_SIZES, **DEFAULTS, **source.DEFAULTS}
    saved = {**saved, "encoder_layerdrop": 0.0}  # only matters in training
    wrong = [
        f"{name}={in_brief(value)}"
        for name, value in saved.items()
        if (name in source.FIXED and value != source.FIXED[name])
        or (name.startswith("encoder_") and name not in {**defaults, **source.FIXED})
    ]
    if wrong:
        raise CheckpointError(f"options unknown to tupe_roberta: {', '.join(sorted(wrong))}")
    # the length of the table; a Hydra run of fairseq 0.12.2 leaves max_positions empty
    lengths = (saved.get(f"max_{kind}positions") for kind in ("", "source_"))
    length = next(filter(None, lengths), saved.get("tokens_per_sample") or 512)
    options = {name: saved.get(name, default) for name, default in defaults.items()}
    options.update(
        arch="tupe_roberta",
        task="masked_lm",
        max_positions=length,
        tokens_per_sample=length,
        **source.position_options(saved),
    )
    options = checked_options(options, "the checkpoint")
    return argparse.Namespace(**options, criterion="masked_lm", data=".")


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


def complete(model: Model, dictionary: str = DICTIONARY) -> None:
    """Turn the tensors into a whole float32 state dict with records, and check that it loads."""
    options, symbols = model.options, symbols_of(model.lines)
    tensors = {name: x if "version" in name else x.float() for name, x in model.tensors.items()}
    config = TupeConfig.from_roberta_options(options)
    check_fit(config, tensors)
    check_vocabulary((len(tensors[EMBEDDING]), None), symbols, dictionary)
    check_finite(tensors, "the checkpoint")
    heads, dim = classification_heads(tensors), options.encoder_embed_dim
    is_of_tokens = trained_kind(vars(options)) == "tagging"
    tags = options.classification_head_name if is_of_tokens else None
    with torch.device("meta"):  # takes no memory
        encoder = TupeEncoder(config)
        encoder.embed_tokens = nn.Embedding(len(symbols), dim)
        tied = not getattr(options, "untie_weights_roberta", False)
        weight = encoder.embed_tokens.weight if tied else None
        lm_head = LMHead(dim, len(symbols), config.activation_fn, weight)
        parts = {
            name: TaggingHead(dim, classes) if name == tags else TextHead(dim, dim, classes)
            for name, classes in heads.items()
        }
    whole = nn.ModuleDict({
        "encoder": nn.ModuleDict({"sentence_encoder": encoder, "lm_head": lm_head}),
        "classification_heads": nn.ModuleDict(parts),
    })  # fmt: skip
    record = {ENCODER + RECORD: options_record(config)}
    records = {VOCABULARY: vocabulary_version(symbols)}
    for name in {*heads} - {tags}:
        activation_fn = getattr(options, "pooler_activation_fn", "tanh")
        records[f"{HEADS}{name}.{ACTIVATION_RECORD}"] = activation_record(activation_fn)
        if getattr(options, "pooling", None) == "mean":
            records[f"{HEADS}{name}.{POOLING_RECORD}"] = torch.tensor(1)
    known = {name: x for name, x in tensors.items() if name not in records}
    check_tied(whole, tensors)
    whole.load_state_dict({**record, **known}, assign=True)
    model.tensors = {**tensors, **record, **records}


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
    record = os.path.join(folder, VOCABULARY_RECORD)
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
