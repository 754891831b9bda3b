"""Checkpoints read without running their code, and converted from other projects."""
