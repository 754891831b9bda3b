"""Figures of the position terms and attention of a trained encoder; needs torch, not fairseq."""
