"""GLUE in fairseq: its task, criterion and learning-rate schedule."""
