"""fairseq's programs, run from our commands: their arguments, processes, logs and checkpoints."""
