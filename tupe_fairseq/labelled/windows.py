"""Moved to data.truncation."""

from tupe_fairseq.data.truncation import Window, windows

__all__ = ["Window", "windows"]
