"""fairseq-train with flags for a tiny model."""

from helpers.running import USER_DIR, run

SIZE = [
    "--encoder-layers", 2, "--encoder-embed-dim", 32, "--encoder-ffn-embed-dim", 64,
    "--encoder-attention-heads", 4,
]  # fmt: skip
TRAINING = [
    "--user-dir", USER_DIR, "--arch", "tupe_roberta_tiny",
    "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", 1e-6,
    "--weight-decay", 0.01, "--lr", 1e-2, "--lr-scheduler", "polynomial_decay",
    "--warmup-updates", 5, "--total-num-update", 100, "--clip-norm", 1.0, "--num-workers", 0,
    # no reading ahead: a thread that still reads when the process ends can abort it
    "--data-buffer-size", 0, "--cpu", "--log-format", "json", "--log-interval", 1, "--seed", 7,
]  # fmt: skip
PRETRAINING = [
    *TRAINING, *SIZE, "--task", "masked_lm", "--criterion", "masked_lm",
    "--sample-break-mode", "complete", "--tokens-per-sample", 64, "--max-positions", 64,
    "--skip-invalid-size-inputs-valid-test", "--batch-size", 4, "--max-update", 20,
    "--no-epoch-checkpoints", "--disable-validation",
]  # fmt: skip


def pretrain(data, save_dir, *flags, **kwargs):
    """fairseq-train on masked_lm; later flags win."""
    return run("fairseq-train", data, *PRETRAINING, "--save-dir", save_dir, *flags, **kwargs)
