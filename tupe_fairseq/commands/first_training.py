"""The fairseq-train command for freshly prepared data, ready to be copied."""

from typing import List

import torch

from tupe_fairseq.commands.recipe import masked_lm_training
from tupe_fairseq.programs.command import as_shell


def first_training(folders: List[str], tokens_per_sample: int) -> str:
    """Shell text that trains a small TUPE-R; an hour or less on what this machine has.

    Args:
        folders (list of str): the data folder, or one for each shard.
        tokens_per_sample (int): the longest sample, for which the data was made.
    """
    if torch.cuda.is_available():
        arch, updates, device = "tupe_roberta_small", 10_000, "--fp16"
    else:
        arch, updates, device = "tupe_roberta_tiny", 2000, "--cpu"
    model = ["--arch", arch, "--rel-pos", "--max-positions", str(tokens_per_sample)]
    words = masked_lm_training(
        ":".join(folders), model,
        length=tokens_per_sample, updates=updates, warmup=updates // 20, lr="5e-4",
    )  # fmt: skip
    return as_shell([*words, "--log-interval", "50", device])
