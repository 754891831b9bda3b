"""The fairseq-train command for freshly prepared data, ready to be copied."""

from typing import List

from tupe_fairseq.commands.recipe import masked_lm_training
from tupe_fairseq.shell_text import as_shell


def first_training(folders: List[str], tokens_per_sample: int) -> str:
    """Shell text that trains a small TUPE-R; an hour or less on what this machine has.

    Args:
        folders (list of str): the data folder, or one for each shard.
        tokens_per_sample (int): the longest sample, for which the data was made.
    """
    import torch  # takes seconds, which the preparation need not wait for

    if torch.cuda.is_available():
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
