"""What can be checked of tupe-compare's flags before anything is imported."""

import argparse
import os
import shlex
from typing import List, Tuple

from tupe_fairseq.architectures import ARCHITECTURES
from tupe_fairseq.command_flags import arguments
from tupe_fairseq.command_flags.given_paths import can_be_written, no_separators
from tupe_fairseq.compare.data_folders import check_data
from tupe_fairseq.compare.parse_schemes import parse_scheme, parse_schemes


def check(args: argparse.Namespace) -> None:
    """Refuse what is wrong whatever is in the data.

    Raises:
        OSError, ValueError: the message names the flag.
    """
    parse_schemes(args.schemes)
    arguments.seeds(args.seeds)
    if args.baseline:
        parse_scheme(args.baseline, "--baseline")
    archs(args.arch)
    train_flags(args.train_flags)
    _check_numbers(args)
    if args.cpu:
        for flag, given in (("--gpus", args.gpus is not None), ("--fp16", args.fp16)):
            if given:
                raise ValueError(f"{flag} needs a GPU; drop it, or drop --cpu")
    else:
        gpus(args)
    check_data(args.data)
    no_separators("--output-dir", os.path.abspath(args.output_dir))
    if not args.dry_run:
        can_be_written("--output-dir", args.output_dir)


def archs(text: str) -> List[str]:
    """Read --arch: sizes of tupe_roberta separated by commas, each once."""
    found = [arch.strip() for arch in text.split(",")]
    for arch in found:
        if arch not in ARCHITECTURES:
            raise ValueError(
                f"--arch {arch} is not one of tupe_roberta: {', '.join(ARCHITECTURES)}"
            )
        if found.count(arch) > 1:
            raise ValueError(f"--arch lists {arch} twice")
    return found


def train_flags(text: str) -> Tuple[str, ...]:
    """Split --train-flags into words, as a shell does."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"--train-flags {text}: {error}") from error


def gpus(args: argparse.Namespace) -> List[int]:
    """Read --gpus: numbers separated by commas; no more than --parallel uses."""
    found = arguments.numbers(
        "--gpus", args.gpus or "0", int, lambda gpu: gpu >= 0, "GPU number (0, 1, ...)"
    )
    if args.parallel is not None and args.parallel < len(found):
        raise ValueError(
            f"--gpus {args.gpus} lists {len(found)}, and --parallel ({args.parallel}) uses fewer; "
            "list fewer, or raise --parallel"
        )
    return found


def _check_numbers(args: argparse.Namespace) -> None:
    for name, least in (
        ("updates", 1),
        ("warmup_updates", 0),
        ("validate_every", 1),
        ("batch_size", 1),
        ("tokens_per_sample", 3),
        ("parallel", 1),
        ("threads", 1),
    ):
        value = getattr(args, name)
        if value is not None:
            arguments.in_range(f"--{name.replace('_', '-')}", value, at_least=least)
    for name in ("warmup_updates", "validate_every"):
        value = getattr(args, name)
        if value is not None and value > args.updates:
            raise ValueError(
                f"--{name.replace('_', '-')} ({value}) exceeds --updates ({args.updates}); lower it"
            )
    arguments.in_range("--lr", args.lr, above=0)
