"""The report.json of a task's data folder."""

import os
from typing import Any

from tupe_fairseq.files.names import REPORT
from tupe_fairseq.files.record import check_record, read_record
from tupe_fairseq.labelled.task_description import RECORD, Task

_COUNTS = {str: int}
_SPLIT = {
    "rows_read": int,
    "rows": int,
    "dropped": _COUNTS,
    "warnings": _COUNTS,
    "labels": _COUNTS,
    "unknown_rate": float,
    "too_long": int,
}
_SHAPE = {
    "task": str,
    "description": (RECORD, None),
    "vocabulary": str,
    "max_positions": int,
    "splits": {str: _SPLIT},
    "warnings": [str],
}


def read_task_report(folder: str) -> dict[str, Any]:
    """What ``prepare_task`` wrote when it finished the folder.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is damaged, or of another program.
    """
    return read_record(os.path.join(folder, REPORT), _SHAPE)


def task_of(report: dict[str, Any], path: str) -> Task:
    """The task that a report describes.

    Args:
        report (dict): the content of report.json.
        path (str): its name, for the message.
    Raises:
        ValueError: if it has no description, as that of pre-training data and of version 0.1.0.
    """
    check_record(report.get("description"), RECORD, path, "description")
    return Task.from_record(report["description"])
