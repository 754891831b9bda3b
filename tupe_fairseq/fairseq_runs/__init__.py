"""Trainings by fairseq-train: commands, processes, logs, checkpoints."""
