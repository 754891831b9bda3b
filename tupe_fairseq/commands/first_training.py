"""The fairseq-train command for freshly prepared data, ready to be copied."""

from typing import List

import torch

from tupe_fairseq.programs.command import as_shell, user_dir


def first_training(folders: List[str], tokens_per_sample: int) -> str:
    """Shell text that trains a small TUPE-R; an hour or less on what this machine has.

    Args:
        folders (list of str): the data folder, or one for each shard.
        tokens_per_sample (int): the longest sample, for which the data was made.
    """
    length = str(tokens_per_sample)
    if torch.cuda.is_available():
        model, updates, device = "tupe_roberta_small", 10_000, "--fp16"
    else:
        model, updates, device = "tupe_roberta_tiny", 2000, "--cpu"
    return as_shell(
        [
            "fairseq-train", ":".join(folders), "--user-dir", user_dir(),
            "--arch", model, "--rel-pos", "--task", "masked_lm", "--criterion", "masked_lm",
            "--sample-break-mode", "complete", "--tokens-per-sample", length,
            "--max-positions", length, "--skip-invalid-size-inputs-valid-test",
            "--optimizer", "adam", "--adam-betas", "(0.9,0.999)", "--adam-eps", "1e-6",
            "--weight-decay", "0.01", "--clip-norm", "1.0", "--lr", "5e-4",
            "--lr-scheduler", "polynomial_decay", "--warmup-updates", str(updates // 20),
            "--total-num-update", str(updates), "--max-update", str(updates),
            # a multiple of 1: else fairseq's main branch drops a smaller last batch
            "--batch-size", "16", "--required-batch-size-multiple", "1",
            "--save-interval-updates", str(updates // 10), "--keep-interval-updates", "2",
            "--no-epoch-checkpoints", "--save-dir", "checkpoints", "--log-interval", "50", device,
        ]
    )  # fmt: skip
