"""The flags with which commands run a model over texts: vocabulary, devices, batches."""

import argparse

from tupe_fairseq.command_flags.vocabulary_flags import add_vocabulary_flags
from tupe_fairseq.prediction.batches import BATCH_TOKENS, BATCH_TOKENS_ON_GPU


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="data folder with dict.txt, the vocabulary and report.json (what is predicted, how "
        "text was treated); what it has not is taken from the checkpoint's folder; default: the "
        "latter",
    )
    add = parser.add_argument_group("computation").add_argument
    add(
        "--batch-tokens",
        type=int,
        metavar="N",
        help="tokens of a batch, padding included; changes only speed and rounding; default "
        f"{BATCH_TOKENS} on a CPU and {BATCH_TOKENS_ON_GPU} on a GPU",
    )
    add(
        "--unpad",
        action="store_true",
        help="leave what padding batches of similar length have out of all layers; changes only "
        "speed and rounding",
    )
    add("--fp16", action="store_true", help="half precision; for GPUs")
    add(
        "--gpus",
        type=int,
        metavar="N",
        help="GPUs, with a process for each if there are several; default: one, if there is one",
    )
    add("--cpu", action="store_true", help="stay on the CPU even if there is a GPU")
    add_vocabulary_flags(parser)
