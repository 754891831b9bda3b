"""Which metrics a task reports, and which one picks checkpoints."""

from dataclasses import replace

from tupe_fairseq.labelled.metrics import check_metrics
from tupe_fairseq.labelled.task_description import Task


def metric_names(task: Task) -> list[str]:
    """The task's metrics, and the one by which checkpoints are picked."""
    return list(dict.fromkeys([*task.metrics, task.selection]))


def by_metric(task: Task, metric: str | None) -> Task:
    """The task with another metric that picks checkpoints.

    Args:
        task (Task): the task.
        metric (str, optional): one of those of its kind; default: its own.
    Raises:
        ValueError: if tasks of this kind, or with these labels, do not have it.
    """
    if metric is None:
        return task
    check_metrics([metric], task.kind, task.labels, f"--metric {metric}")
    return replace(task, selection=metric)
