"""Studies: trainings by fairseq-train in a folder, several at a time, and their tables."""
