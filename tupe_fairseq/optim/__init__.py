from tupe_fairseq.optim import fused_adam, muon  # noqa: F401
