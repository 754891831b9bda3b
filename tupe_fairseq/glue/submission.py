"""Moved to data.glue."""

from tupe_fairseq.data.glue import write_submission

__all__ = ["write_submission"]
