"""Moved to data.glue."""

from tupe_fairseq.data.glue import GLUE_TASKS, GlueTask, task_named

__all__ = ["GLUE_TASKS", "GlueTask", "task_named"]
