"""The fairseq-train command for freshly prepared data, ready to be copied."""

import os
import shutil

from tupe_fairseq.commands.recipe import masked_lm_training
from tupe_fairseq.fairseq_runs.command import as_shell


def first_training(folders: list[str], tokens_per_sample: int) -> str:
    """Shell text that trains a small TUPE-R; an hour or less on what this machine has.

    Args:
        folders (list of str): the data folder, or one for each shard.
        tokens_per_sample (int): the longest sample, for which the data was made.
    """
    if _has_gpu():
        arch, updates, lr, further = "tupe_roberta_small", 10_000, "5e-4", ["--fp16"]
    else:
        # a training this short does not overfit, and with dropout it learns frequencies alone
        further = ["--dropout", "0", "--attention-dropout", "0", "--cpu"]
        arch, updates, lr = "tupe_roberta_tiny", 2000, "1.5e-3"
    model = ["--arch", arch, "--rel-pos", "--max-positions", str(tokens_per_sample)]
    words = masked_lm_training(
        ":".join(folders), model,
        length=tokens_per_sample, updates=updates, warmup=updates // 20, lr=lr,
    )  # fmt: skip
    return as_shell([*words, "--log-interval", "50", *further])


# of NVIDIA's and AMD's drivers, and of Windows' for Linux
_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")


def _has_gpu() -> bool:
    """Whether torch can train on one; torch takes seconds to import, so only where it may."""
    if not any(map(os.path.exists, _DEVICES)) and shutil.which("nvidia-smi") is None:
        return False
    import torch

    return torch.cuda.is_available()
