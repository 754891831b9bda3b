"""Studies: runs of fairseq-train in one folder, several at a time, each with its result."""
