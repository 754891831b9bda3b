"""Moved to data.truncation."""

from tupe_fairseq.data.truncation import pair_lengths

__all__ = ["pair_lengths"]
