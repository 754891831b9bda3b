"""Moved to data.metrics."""

from tupe_fairseq.data.metrics import class_scores, most_frequent

__all__ = ["class_scores", "most_frequent"]
