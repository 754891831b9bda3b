"""Small fine-tuned models with what belongs beside them."""

import json
import shutil

from helpers.exporting import write_model
from helpers.glue_files import write_pretrain_dir
from helpers.running import call_program
from tupe_fairseq.data.task import Task, label_symbol

HEAD = "sentence_classification_head"
LABELS = {
    "classification": ("good", "very bad", "neither"),
    "regression": (),
    "multilabel": ("a", "b c", "d"),
}


def write_fine_tuned(folder, kind="classification", texts=1, **options):
    """A checkpoint with what tupe-finetune copies beside it; its path."""
    data = write_pretrain_dir(folder.parent / f"data of {folder.name}")
    scale = (-2.0, 6.0) if kind == "regression" else None
    task = Task("mine", kind, LABELS[kind], texts, ("train",), ("accuracy",), "accuracy", 1, scale)
    checkpoint = write_model(
        folder, data, {HEAD: task.num_classes}, task="glue_sentence_prediction",
        classification_head_name=HEAD, num_classes=task.num_classes,
        multilabel=kind == "multilabel", regression_target=kind == "regression", **options,
    )  # fmt: skip
    for place in (folder / "input0", folder / "label"):
        place.mkdir()
    shutil.copy(data / "sentencepiece.bpe.model", folder)
    shutil.copy(data / "dict.txt", folder)
    shutil.copy(data / "dict.txt", folder / "input0")
    if task.labels:
        labels = "".join(f"{label_symbol(label)} 1\n" for label in task.labels)
        (folder / "label" / "dict.txt").write_text(labels)
    (folder / "report.json").write_text(json.dumps({"description": task.to_record()}))
    return checkpoint


def predict(*words):
    """tupe-predict on the CPU in this process: the exit code and what was printed."""
    return call_program("predict", [*words, "--cpu"])
