from tupe_fairseq.optim import fused_adam  # noqa: F401
