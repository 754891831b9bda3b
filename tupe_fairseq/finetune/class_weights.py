"""Weights of classes that are not equally frequent."""

import numpy as np

from tupe_fairseq.finetune.answers import flat
from tupe_fairseq.finetune.task_folder import TaskData
from tupe_fairseq.labelled.task_description import MULTILABEL


def balanced_weights(data: TaskData) -> list[float]:
    """The weight of each class in the loss, by which all weigh the same in the training set.

    It is n / (C n_c) for a class with n_c of n rows (or words), out of C classes; for a task of
    labels, the weight of the rows with a label: how many rows there are without it for each of
    them.

    Returns:
        list of float: in the order of the classes, with six digits.
    Raises:
        ValueError: if there are scores instead of classes, or a class cannot be weighed.
    """
    task = data.task
    if task.is_regression:
        raise ValueError(f"--balance weighs classes, but {task.name} is a regression; drop it")
    train = flat(data.targets("train"))
    if task.kind == MULTILABEL:
        counts, rows = train.sum(axis=0), len(train)
        weighable, needed = (counts > 0) & (counts < rows), "rows with and without it"
        weights = (rows - counts) / np.maximum(counts, 1)
    else:
        counts = np.bincount(train, minlength=task.num_classes)
        weighable, needed = counts > 0, "one or more"
        weights = len(train) / (task.num_classes * np.maximum(counts, 1))
    for label, count, fine in zip(task.labels, counts.tolist(), weighable):
        if not fine:
            raise ValueError(
                f"--balance cannot weigh {label!r}, which train of {data.folder} has {count} times "
                f"in {len(train)}; it needs {needed}"
            )
    return [float(f"{weight:.6g}") for weight in weights]
