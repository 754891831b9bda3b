"""Moved to data.task."""

from tupe_fairseq.data.task import Task, trained_kind

__all__ = ["check_kind", "trained_kind"]


def check_kind(path: str, kind: str, outputs: int, task: Task) -> None:
    """Refuse a task that is not the one of a checkpoint."""
    task.check_model(path, kind, outputs)
