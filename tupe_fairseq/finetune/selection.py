"""Which metrics a task reports, and which one picks checkpoints."""

from dataclasses import replace
from typing import List, Optional

from tupe_fairseq.tasks.task_description import (
    CLASSIFICATION,
    MULTILABEL,
    REGRESSION,
    TAGGING,
    Task,
)

#: --metric, by the kind of task
SELECTIONS = {
    CLASSIFICATION: ("accuracy", "macro_f1", "mcc", "f1", "acc_and_f1"),
    REGRESSION: ("pearson", "spearman", "pearson_and_spearman"),
    MULTILABEL: ("micro_f1", "macro_f1"),
    TAGGING: ("accuracy", "entity_f1"),
}
# of class 1
_OF_TWO_CLASSES = ("f1", "acc_and_f1")


def metric_names(task: Task) -> List[str]:
    """The task's metrics, and the one by which checkpoints are picked."""
    return list(dict.fromkeys([*task.metrics, task.selection]))


def by_metric(task: Task, metric: Optional[str]) -> Task:
    """The task with another metric that picks checkpoints.

    Args:
        task (Task): the task.
        metric (str, optional): one of :data:`SELECTIONS` of its kind; default: its own.
    Raises:
        ValueError: if tasks of this kind do not have it.
    """
    if metric is None:
        return task
    names = [name for name in SELECTIONS[task.kind] if _is_for(task, name)]
    if metric not in names:
        raise ValueError(
            f"--metric {metric} cannot pick checkpoints of {task.name}; give one of "
            f"{', '.join(names)}"
        )
    return replace(task, selection=metric)


def _is_for(task: Task, metric: str) -> bool:
    if metric in _OF_TWO_CLASSES:
        return task.num_classes == 2
    if metric == "entity_f1":
        return all(tag == "O" or tag[:2] in ("B-", "I-") for tag in task.labels)
    return True
