"""The commands that a converted checkpoint is used with, ready to be copied."""

import argparse
import os

from tupe_fairseq.checkpoint.pretrained import read_pretrained
from tupe_fairseq.commands.recipe import masked_lm_training
from tupe_fairseq.fairseq_runs.command import as_shell
from tupe_fairseq.files.names import MODEL

# what does not shape the model, so that it is not among the flags that must be the same
_RATES = (
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "pooler_dropout",
    "encoder_layerdrop",
)


def next_commands(
    folder: str, options: argparse.Namespace, has_vocabulary: bool, data: str = "data-bin"
) -> str:
    """Shell text that prepares data for a converted checkpoint, trains it on, and fine-tunes it.

    Args:
        folder (str): what tupe-convert or tupe-extend has written.
        options (Namespace): the options of its checkpoint.
        has_vocabulary (bool): whether the folder records one; without it data cannot be prepared.
        data (str): the folder of the data to train it on, if none is to be prepared.
    """
    model, length = os.path.join(folder, MODEL), options.max_positions
    # not --restore-file: that would be loaded again when an interrupted run resumes
    flags = [*read_pretrained(model).flags, "--finetune-from-model", model]
    for name in _RATES:
        rate = getattr(options, name, None)  # None: the file does not say it
        if rate is not None:
            flags += ["--" + name.replace("_", "-"), str(rate)]
    train = masked_lm_training(data, flags, length=length, updates=10_000, warmup=1000, lr="1e-4")
    pretrain: list[str] = [
        "tupe-prepare-pretrain", "--input", "train.txt", "--vocabulary", folder,
        "--tokens-per-sample", str(length), "--output-dir", "data-bin",
    ]  # fmt: skip
    glue = [
        "tupe-prepare-glue", "--glue-dir", "glue_data", "--tasks", "CoLA",
        "--pretrain-dir", folder, "--output-dir", "glue-bin",
    ]  # fmt: skip
    finetune = [
        "tupe-finetune", "--task", "CoLA", "--data", "glue-bin/CoLA", "--checkpoint", model,
        "--output-dir", "runs",
    ]  # fmt: skip
    if not has_vocabulary:
        return "\n".join(
            ["# to train it on, with data made with its dict.txt and vocabulary:", as_shell(train)]
        )
    return "\n".join(
        [
            "# to fine-tune it:",
            as_shell(glue),
            as_shell(finetune),
            "# to train it on:",
            as_shell(pretrain),
            as_shell(train),
        ]  # fmt: skip
    )
