"""The flags with which commands run a model over texts: vocabulary, devices, batches."""

import argparse
from typing import List

import torch

from tupe_fairseq.commands import arguments
from tupe_fairseq.commands.vocabulary_flags import add_vocabulary_flags
from tupe_fairseq.prediction.batched_encoder import BATCH_TOKENS, BATCH_TOKENS_ON_GPU


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


def devices_of(args: argparse.Namespace) -> List[str]:
    """The devices on which the model is to run; checks the flags, and completes --batch-tokens.

    Raises:
        ValueError: if there are not so many GPUs, or flags contradict each other.
    """
    devices = _devices(args)
    is_cpu = devices == ["cpu"]
    if args.fp16 and is_cpu:
        raise ValueError("--fp16 is for GPUs, and this runs on the CPU; drop it")
    if args.batch_tokens is None:
        args.batch_tokens = BATCH_TOKENS if is_cpu else BATCH_TOKENS_ON_GPU
    arguments.in_range("--batch-tokens", args.batch_tokens, at_least=1, at_most=2**31 - 1)
    return devices


def _devices(args: argparse.Namespace) -> List[str]:
    if args.gpus is None:
        return ["cuda:0"] if torch.cuda.is_available() and not args.cpu else ["cpu"]
    if args.cpu:
        raise ValueError(f"--gpus {args.gpus} and --cpu contradict each other; drop one")
    # it does not begin to use the GPUs, which processes that are forked later could not
    there = torch.cuda.device_count()
    if not there:
        raise ValueError(f"--gpus {args.gpus}: there is no GPU that torch can use; give --cpu")
    arguments.in_range("--gpus", args.gpus, at_least=1, at_most=there)
    return [f"cuda:{number}" for number in range(args.gpus)]
