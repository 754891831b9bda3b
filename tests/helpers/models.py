"""Small models: checkpoints as trainings and tupe-finetune leave them, and model folders."""

import argparse
import json
import shutil

import torch
from fairseq.data import Dictionary
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from helpers.glue_files import write_pretrain_dir
from tupe_fairseq.checkpoint.checkpoint import symbols_of
from tupe_fairseq.export.names import TUPE, to_config, to_transformers
from tupe_fairseq.export.write_folder import write_model as write_exported
from tupe_fairseq.labelled.task import Task, label_symbol
from tupe_fairseq.models.tupe_roberta import TupeRobertaModel

MAX_POSITIONS = 24
SIZES = {
    "encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24,
    "encoder_attention_heads": 2, "max_positions": MAX_POSITIONS,
}  # fmt: skip
CHECKPOINT, HEAD = "checkpoint_best.pt", "sentence_classification_head"
LABELS = {
    "classification": ("good", "very bad", "neither"),
    "regression": (),
    "multilabel": ("a", "b c", "d"),
    "tagging": ("O", "B-my place", "I"),
}
#: options of a model with mean pooling; :func:`build` adds its heads, as loading does
MEAN_POOLING = {"pooling": "mean", "load_checkpoint_heads": True}


def build(dictionary, heads=None, **options):
    """Options and a model; no weight has its initial value, so that each one matters."""
    options, model = new(dictionary, heads, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return options, model


def new(dictionary, heads=None, **options):
    """Options and an untrained model.

    ``heads`` maps names to numbers of classes; ``options`` are fairseq's.
    """
    words = Dictionary.load(str(dictionary))
    words.add_symbol("<mask>")
    preset = {"arch": "tupe_roberta", "task": "masked_lm", "criterion": "masked_lm", **SIZES}
    args = argparse.Namespace(**{**preset, **options})
    task = MaskedLMTask(MaskedLMConfig(tokens_per_sample=args.max_positions), words)
    model = TupeRobertaModel.build_model(args, task)
    for name, classes in (heads or {}).items():
        if args.task == "token_tagging":
            model.register_tagging_head(name, num_classes=classes)
        else:
            model.register_classification_head(name, num_classes=classes)
    return vars(args), model


def save(folder, args, model):
    """Write a checkpoint as fairseq-train does."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "cfg": {"model": argparse.Namespace(**args)},
        "model": model.state_dict(),
        "optimizer_history": [{"num_updates": 3}],
    }
    torch.save(state, folder / CHECKPOINT)
    return folder / CHECKPOINT


def write_model(folder, data, heads=None, **options):
    """A checkpoint in FOLDER, whose vocabulary is in ``data``."""
    return save(folder, *build(data / "dict.txt", heads, **options))


def write_fine_tuned(folder, kind="classification", texts=1, **options):
    """Write a checkpoint and the files that tupe-finetune copies beside it; returns its path."""
    data = write_pretrain_dir(folder.parent / f"data of {folder.name}")
    scale = (-2.0, 6.0) if kind == "regression" else None
    task = Task("mine", kind, LABELS[kind], texts, ("train",), ("accuracy",), "accuracy", 1, scale)
    checkpoint = write_model(
        folder, data, {HEAD: task.num_classes}, classification_head_name=HEAD,
        task="token_tagging" if kind == "tagging" else "glue_sentence_prediction",
        num_classes=task.num_classes, multilabel=kind == "multilabel",
        regression_target=kind == "regression", **options,
    )  # fmt: skip
    for place in (folder, folder / "input0"):
        place.mkdir(exist_ok=True)
        shutil.copy(data / "dict.txt", place)
    shutil.copy(data / "sentencepiece.bpe.model", folder)
    (folder / "label").mkdir()
    if task.labels:
        labels = "".join(f"{label_symbol(label)} 1\n" for label in task.labels)
        (folder / "label" / "dict.txt").write_text(labels)
    (folder / "report.json").write_text(json.dumps({"description": task.to_record()}))
    return checkpoint


def hub_of(folder, *names, **options):
    """The model of a folder in fairseq's hub interface, for evaluation."""
    return TupeRobertaModel.from_pretrained(str(folder), *map(str, names), **options).eval()


def write_folder(folder, head=None, words=31, **options):
    """Write a model folder of transformers; returns the fairseq model that it was made from."""
    folder.mkdir(parents=True)
    lines = [f"word{n} 1" for n in range(words)]
    (folder / "dict.txt").write_text("".join(f"{line}\n" for line in lines))
    if head is not None and head.kind.of_words:
        options["task"] = "token_tagging"
    heads = None if head is None else {head.name: len(head.labels)}
    args, model = build(folder / "dict.txt", heads, **options)
    symbols = symbols_of(lines)
    config = to_config(argparse.Namespace(**args), symbols, TUPE, head)
    tensors = to_transformers(model.state_dict(), TUPE, head, config["tie_word_embeddings"])
    write_exported(str(folder), config, tensors)
    return model.eval()
