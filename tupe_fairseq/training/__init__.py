"""Running fairseq-train from a command: its words, its process, its log, its checkpoints."""
