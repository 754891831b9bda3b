"""Writes the label/ folder of a task's data."""

import os
from collections import Counter

from tupe_fairseq.files.atomic import atomic_write
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, DICTIONARY
from tupe_fairseq.labelled.labels import label_ids, label_symbol
from tupe_fairseq.labelled.task_description import TAGGING, Task
from tupe_fairseq.labelled.task_rows import TaskRows, as_tuple
from tupe_fairseq.text.mmap_writer import ended, item_type, sentence_writer
from tupe_fairseq.text.piece_numbers import in_a_row


def write_labels(task: Task, splits: dict[str, TaskRows], folder: str) -> None:
    """Write classes or labels in the order of the task, or scores as shares of the scale.

    Args:
        task (Task): the task; the tags of tagging, which stand on pieces, are written with these,
            and only their dict.txt is written here.
        splits (dict): split to its rows; those without labels are left out.
        folder (str): where the files go.
    Raises:
        OSError: if there is no space left.
    """
    labelled = {split: rows.labels for split, rows in splits.items() if rows.labels}
    if task.scale is not None:
        low, high = task.scale
        for split, labels in labelled.items():
            with atomic_write(os.path.join(folder, f"{split}.label")) as file:
                file.writelines(f"{(float(x) - low) / (high - low)!r}\n" for x in labels)
        return
    with atomic_write(os.path.join(folder, DICTIONARY)) as file:
        counts = Counter(one for label in labelled["train"] for one in as_tuple(label))
        file.writelines(f"{label_symbol(label)} {counts[label]}\n" for label in task.labels)
    if task.kind == TAGGING:
        return
    ids = label_ids(task.labels)
    dtype = item_type(len(BUILT_IN_SYMBOLS) + len(ids))
    for split, labels in labelled.items():
        found, lengths = in_a_row([[ids[one] for one in as_tuple(label)] for label in labels])
        with sentence_writer(os.path.join(folder, split), dtype) as writer:
            writer.write(ended(found.astype(dtype), lengths))
