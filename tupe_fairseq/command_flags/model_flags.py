"""The flags with which commands run a model over texts: vocabulary, devices, batches."""

import argparse

from tupe_fairseq.command_flags.arguments import in_range
from tupe_fairseq.command_flags.given_paths import check_is_checkpoint
from tupe_fairseq.command_flags.vocabulary_flags import add_vocabulary_flags, given_vocabulary
from tupe_fairseq.prediction.batches import BATCH_TOKENS, BATCH_TOKENS_ON_GPU
from tupe_fairseq.text.found_vocabulary import find_dictionary
from tupe_fairseq.text.to_tokens import places_of


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


def check_model_flags(args: argparse.Namespace) -> None:
    """Refuse flags that exclude each other, numbers that make no sense, files that are not there.

    How many GPUs there are, torch alone knows.

    Raises:
        OSError, ValueError: the message names the flag.
    """
    given_vocabulary(args)
    if args.gpus is not None:
        if args.cpu:
            raise ValueError(f"--gpus {args.gpus} and --cpu contradict each other; drop one")
        in_range("--gpus", args.gpus, at_least=1)
    if args.cpu and args.fp16:
        raise ValueError("--fp16 is for GPUs, and this runs on the CPU; drop it")
    if args.batch_tokens is not None:
        in_range("--batch-tokens", args.batch_tokens, at_least=1, at_most=2**31 - 1)
    check_is_checkpoint(args.checkpoint)
    find_dictionary(places_of(args.checkpoint, args.data))
