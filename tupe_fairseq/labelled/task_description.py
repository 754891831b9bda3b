"""Moved to data.task."""

from tupe_fairseq.data.task import CLASSIFICATION, KINDS, MULTILABEL, REGRESSION, TAGGING, Task

__all__ = ["CLASSIFICATION", "KINDS", "MULTILABEL", "REGRESSION", "TAGGING", "Task"]
