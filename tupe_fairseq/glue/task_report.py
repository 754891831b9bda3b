"""The report.json of a task's data folder."""

import os
from typing import Any, Dict

from tupe_fairseq.files.names import REPORT
from tupe_fairseq.files.record import read_record

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
    "vocabulary": str,
    "max_positions": int,
    "splits": {str: _SPLIT},
    "warnings": [str],
}


def read_task_report(folder: str) -> Dict[str, Any]:
    """What ``prepare_task`` wrote when it finished the folder.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is damaged, or of another program.
    """
    return read_record(os.path.join(folder, REPORT), _SHAPE)
