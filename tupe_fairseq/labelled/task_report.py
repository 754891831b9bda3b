"""Moved to data.task."""

from typing import Any

from tupe_fairseq.data.task import Task
from tupe_fairseq.data.task import read_report as read_task_report

__all__ = ["read_task_report", "task_of"]


def task_of(report: dict[str, Any], path: str) -> Task:
    """The task that a report describes."""
    return Task.from_record(report.get("description"), path)
