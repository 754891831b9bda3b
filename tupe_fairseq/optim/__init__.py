from tupe_fairseq.optim import warmup_ratio  # noqa: F401
