"""The devices on which a command runs a model over texts."""

import argparse

import torch

from tupe_fairseq.command_flags import arguments
from tupe_fairseq.prediction.batches import BATCH_TOKENS, BATCH_TOKENS_ON_GPU


def devices_of(args: argparse.Namespace) -> list[str]:
    """The devices on which the model is to run; completes --batch-tokens.

    Raises:
        ValueError: if there are not so many GPUs, or none for --fp16.
    """
    devices = _devices(args)
    is_cpu = devices == ["cpu"]
    if args.fp16 and is_cpu:
        raise ValueError("--fp16 is for GPUs, and this runs on the CPU; drop it")
    if args.batch_tokens is None:
        args.batch_tokens = BATCH_TOKENS if is_cpu else BATCH_TOKENS_ON_GPU
    return devices


def _devices(args: argparse.Namespace) -> list[str]:
    if args.gpus is None:
        return ["cuda:0"] if torch.cuda.is_available() and not args.cpu else ["cpu"]
    # it does not begin to use the GPUs, which processes that are forked later could not
    there = torch.cuda.device_count()
    if not there:
        raise ValueError(f"--gpus {args.gpus}: there is no GPU that torch can use; give --cpu")
    arguments.in_range("--gpus", args.gpus, at_least=1, at_most=there)
    return [f"cuda:{number}" for number in range(args.gpus)]
