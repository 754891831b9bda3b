"""Trained models used from Python, through fairseq."""

import tupe_fairseq.require_fairseq  # noqa: F401
