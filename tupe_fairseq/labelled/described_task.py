"""Moved to data.task."""

from collections.abc import Sequence

from tupe_fairseq.data.task import Task


def described_task(places: Sequence[str]) -> Task:
    """The task that the first report.json with a description describes."""
    return Task.load(*places)
