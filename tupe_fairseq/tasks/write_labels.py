"""Writes the label/ folder of a task's data."""

import os
from collections import Counter
from typing import Dict

from tupe_fairseq.files.atomic import atomic_write
from tupe_fairseq.tasks.labels import label_symbol
from tupe_fairseq.tasks.task_description import TAGGING, Task
from tupe_fairseq.tasks.task_rows import TaskRows, as_tuple
from tupe_fairseq.text.binarize import binarize


def write_labels(
    task: Task, splits: Dict[str, TaskRows], work: str, folder: str, workers: int
) -> None:
    """Write classes, labels or tags in the order of the task, or scores as shares of the scale.

    Args:
        task (Task): the task.
        splits (dict): split to its rows; those without labels are left out, but for tagging, where
            the labels say where words begin, too.
        work (str): a folder for what comes before; it has the tags' SPLIT.label already.
        folder (str): is written; it must not be there.
        workers (int): processes of fairseq-preprocess.
    """
    labelled = {split: rows.labels for split, rows in splits.items() if rows.labels}
    if task.scale is not None:
        low, high = task.scale
        for split, labels in labelled.items():
            with atomic_write(os.path.join(folder, f"{split}.label")) as file:
                file.writelines(f"{(float(x) - low) / (high - low)!r}\n" for x in labels)
        return
    symbols = {label: label_symbol(label) for label in task.labels}
    dictionary = os.path.join(work, "labels.txt")
    with atomic_write(dictionary) as file:
        counts = Counter(one for label in labelled["train"] for one in as_tuple(label))
        file.writelines(f"{symbols[label]} {counts[label]}\n" for label in task.labels)
    if task.kind != TAGGING:
        splits = {split: splits[split] for split in labelled}
        for split, labels in labelled.items():
            with atomic_write(os.path.join(work, f"{split}.label")) as file:
                for label in labels:
                    file.write(" ".join(symbols[one] for one in as_tuple(label)) + "\n")
    texts = {split: os.path.join(work, f"{split}.label") for split in splits}
    expected = {split: len(rows.texts) for split, rows in splits.items()}
    binarize(dictionary, texts, folder, expected, workers)
