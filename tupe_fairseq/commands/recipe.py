"""The fairseq-train command for masked words that our commands print, ready to be copied."""

from collections.abc import Sequence

from tupe_fairseq.fairseq_runs.command import user_dir


def masked_lm_training(
    data: str, model: Sequence[str], *, length: int, updates: int, warmup: int, lr: str
) -> list[str]:
    """The words of a training that saves as it goes, and resumes if it is started again.

    Args:
        data (str): the data folder, or several separated by colons.
        model (sequence of str): the model's flags.
        length (int): the longest sample, for which the data was made.
        updates, warmup (int): all updates, and those of the warm-up.
        lr (str): the peak learning rate.
    """
    return [
        "fairseq-train", data, "--user-dir", user_dir(), *model,
        "--task", "tupe_masked_lm", "--criterion", "masked_lm", "--sample-break-mode", "complete",
        "--tokens-per-sample", str(length), "--skip-invalid-size-inputs-valid-test",
        "--optimizer", "adam", "--adam-betas", "(0.9,0.999)", "--adam-eps", "1e-6",
        "--weight-decay", "0.01", "--clip-norm", "1.0", "--lr", lr,
        "--lr-scheduler", "polynomial_decay", "--warmup-updates", str(warmup),
        "--total-num-update", str(updates), "--max-update", str(updates),
        # a multiple of 1: else fairseq's main branch drops a smaller last batch
        "--batch-size", "16", "--required-batch-size-multiple", "1",
        "--save-interval-updates", str(updates // 10), "--keep-interval-updates", "2",
        "--no-epoch-checkpoints", "--save-dir", "checkpoints",
    ]  # fmt: skip
