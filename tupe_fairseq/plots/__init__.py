"""Figures, without fairseq: a model's position terms and attention, and what fine-tuning gave."""
