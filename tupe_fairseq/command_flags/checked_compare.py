"""What can be checked of tupe-compare's flags before anything is imported."""

import argparse
import os
import shlex

from tupe_fairseq.command_flags import arguments
from tupe_fairseq.command_flags.checked_readouts import given_claims, given_readouts
from tupe_fairseq.command_flags.given_paths import can_be_written, no_separators
from tupe_fairseq.compare.data_folders import check_data
from tupe_fairseq.compare.parse_schemes import Scheme, parse_scheme, parse_schemes
from tupe_fairseq.options import ARCHITECTURES

#: flags that count updates
COUNTS = ("warmup_updates", "validate_every", "tune_updates")


def check(args: argparse.Namespace) -> None:
    """Refuse what is wrong whatever is in the data.

    Raises:
        OSError, ValueError: the message names the flag.
    """
    schemes = seeds_of_schemes(args)
    if args.baseline:
        parse_scheme(args.baseline, "--baseline")
    archs(args.arch)
    train_flags(args.train_flags)
    _check_length(args)
    _check_numbers(args)
    rates(args)
    if args.cpu:
        for flag, given in (("--gpus", args.gpus is not None), ("--fp16", args.fp16)):
            if given:
                raise ValueError(f"{flag} needs a GPU; drop it, or drop --cpu")
    else:
        gpus(args)
    _check_devices(args)
    check_data(args.data)
    given_claims(args, [scheme.label for scheme in schemes], given_readouts(args))
    no_separators("--output-dir", os.path.abspath(args.output_dir))
    if not args.dry_run:
        can_be_written("--output-dir", args.output_dir)


def seeds_of_schemes(args: argparse.Namespace) -> dict[Scheme, tuple[int, ...]]:
    """Read --schemes and --seeds: the seeds of each scheme."""
    others = arguments.seeds(args.seeds)
    return {
        scheme: others if own is None else arguments.seeds(own, f"--schemes {scheme.label!r} @")
        for scheme, own in parse_schemes(args.schemes).items()
    }


def rates(args: argparse.Namespace) -> tuple[float, ...]:
    """Read --tune-lrs: ascending; none if it is not given."""
    if args.tune_lrs is None:
        if args.tune_updates is not None:
            raise ValueError("--tune-updates is for --tune-lrs; give both, or drop it")
        return ()
    if args.lr is not None:
        raise ValueError(
            "--lr is one rate for all, --tune-lrs finds one for each; drop one of them"
        )
    found = arguments.learning_rates(args.tune_lrs, "--tune-lrs")
    if len(found) < 2:
        raise ValueError(f"--tune-lrs {args.tune_lrs}: give two rates or more, or one by --lr")
    return tuple(sorted(found))


def archs(text: str) -> list[str]:
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


def train_flags(text: str) -> tuple[str, ...]:
    """Split --train-flags into words, as a shell does."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"--train-flags {text}: {error}") from error


def gpus(args: argparse.Namespace) -> list[int]:
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
        ("tune_updates", 1),
        ("batch_size", 1),
        ("tokens_per_sample", 3),
        ("parallel", 1),
        ("threads", 1),
    ):
        value = getattr(args, name)
        if value is not None:
            arguments.in_range(f"--{name.replace('_', '-')}", value, at_least=least)
    for name in COUNTS:
        value = getattr(args, name)
        if None not in (value, args.updates) and value > args.updates:
            raise ValueError(
                f"--{name.replace('_', '-')} ({value}) exceeds --updates ({args.updates}); lower it"
            )
    for name in ("lr", "seconds", "stop_after"):
        value = getattr(args, name)
        if value is not None:
            arguments.in_range(f"--{name.replace('_', '-')}", value, above=0)


def _check_length(args: argparse.Namespace) -> None:
    lengths = [name for name in ("updates", "tokens", "seconds") if vars(args)[name] is not None]
    if len(lengths) != 1:
        raise ValueError("give the length of the runs by one of --updates, --tokens and --seconds")
    for name in COUNTS:
        if args.seconds is not None and vars(args)[name] is not None:
            raise ValueError(
                f"--{name.replace('_', '-')} counts updates, of which each scheme has its own "
                "number with --seconds; drop it"
            )


def _check_devices(args: argparse.Namespace) -> None:
    devices = 1 if args.cpu else len(gpus(args))
    if args.seconds is not None and (args.parallel or devices) > devices:
        raise ValueError(
            f"--seconds needs a device for each run, and --parallel ({args.parallel}) puts several "
            "on one, where they slow each other down; lower it, or list more --gpus"
        )
