"""Moved to data.metrics."""

from tupe_fairseq.data.metrics import METRICS, are_bio, check_metrics, task_metrics

__all__ = ["METRICS", "are_bio", "check_metrics", "task_metrics"]
