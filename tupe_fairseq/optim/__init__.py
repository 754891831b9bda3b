from tupe_fairseq.optim import fused_adam, warmup_ratio  # noqa: F401
