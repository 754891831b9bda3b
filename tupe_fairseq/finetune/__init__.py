"""The paper's fine-tuning protocol: a grid of fairseq-train runs, and its tables."""
