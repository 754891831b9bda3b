"""Moved to data.task."""

from tupe_fairseq.data.task import CLASSIFICATION, KINDS, MULTILABEL, REGRESSION, TAGGING, Task

__all__ = ["CLASSIFICATION", "KINDS", "MULTILABEL", "REGRESSION", "TAGGING", "Task", "RECORD"]

#: the shape of :meth:`Task.to_record`, for ``check_record``
RECORD = {
    "name": str,
    "kind": str,
    "labels": [str],
    "texts": int,
    "splits": [str],
    "metrics": [str],
    "selection": str,
    "epochs": int,
    "scale": ([float], None),
    "benchmark": str,
}
