"""The settings of tupe-compare, of its flags."""

import argparse
import os
import shlex
from dataclasses import replace
from typing import Any, Dict, Optional

from tupe_fairseq.commands import arguments
from tupe_fairseq.compare.compared_data import check_data
from tupe_fairseq.compare.comparison import Comparison
from tupe_fairseq.compare.provenance import cores
from tupe_fairseq.compare.token_budget import updates_of_budget

_LR = 1e-3
_COUNTS = ("warmup_updates", "validate_every", "tune_updates")


def settings_without_schedule(args: argparse.Namespace, parallel: int) -> Comparison:
    """All but the number of updates and what follows from it: enough to check flags and schemes.

    Args:
        args (Namespace): the flags.
        parallel (int): the number of concurrent runs.
    Raises:
        OSError, ValueError: if the data are not there, or a number is out of range.
    """
    settings = Comparison(
        folder=os.path.abspath(args.output_dir),
        data=check_data(args.data),
        updates=1,
        warmup_updates=0,
        validate_every=1,
        batch_size=args.batch_size,
        tokens_per_sample=args.tokens_per_sample,
        lr=_LR if args.lr is None else args.lr,
        cpu=args.cpu,
        fp16=args.fp16,
        threads=_threads(args.threads, parallel),
        train_flags=tuple(shlex.split(args.train_flags)),
    )
    _check(settings)
    return settings


def with_schedule(settings: Comparison, args: argparse.Namespace) -> Comparison:
    """The whole settings.

    Args:
        settings (Comparison): without schedule, but with flags that fairseq-train takes.
        args (Namespace): the flags.
    Raises:
        ValueError: if a number is out of range, or flags exclude each other.
    """
    lengths = [name for name in ("updates", "tokens", "seconds") if vars(args)[name] is not None]
    if len(lengths) != 1:
        raise ValueError("give the length of the runs by one of --updates, --tokens and --seconds")
    whole = replace(settings, **_tuning(args))
    given = {name: vars(args)[name] for name in _COUNTS if vars(args)[name] is not None}
    if args.seconds is not None:
        arguments.in_range("--seconds", args.seconds, above=0)
        for name in given:
            raise ValueError(
                f"--{name.replace('_', '-')} counts updates, of which each scheme has its own "
                "number with --seconds; drop it"
            )
        return replace(whole, updates=0, validate_every=0, seconds=args.seconds)
    updates = args.updates if args.tokens is None else updates_of_budget(settings, args.tokens)
    whole = replace(whole.of_length(updates), **given)
    _check(whole)
    return whole


def _tuning(args: argparse.Namespace) -> Dict[str, Any]:
    """The settings of the runs that decide the rates; none without --tune-lrs."""
    if args.tune_lrs is None:
        if args.tune_updates is not None:
            raise ValueError("--tune-updates is for --tune-lrs; give both, or drop it")
        return {}
    if args.lr is not None:
        raise ValueError(
            "--lr is one rate for all, --tune-lrs finds one for each; drop one of them"
        )
    rates = arguments.learning_rates(args.tune_lrs, "--tune-lrs")
    if len(rates) < 2:
        raise ValueError(f"--tune-lrs {args.tune_lrs}: give two rates or more, or one by --lr")
    return {"lr": None, "tune_lrs": tuple(sorted(rates))}


def _threads(given: Optional[int], parallel: int) -> int:
    if given is not None:
        return given
    found = os.environ.get("OMP_NUM_THREADS", "")
    return int(found) if found.isdigit() and int(found) else max(1, cores() // parallel)


def _check(comparison: Comparison) -> None:
    for name, least in (
        ("updates", 1),
        ("warmup_updates", 0),
        ("validate_every", 1),
        ("batch_size", 1),
        ("tokens_per_sample", 3),
        ("threads", 1),
        ("tune_updates", 1 if comparison.tune_lrs else 0),
    ):
        value = getattr(comparison, name)
        arguments.in_range(f"--{name.replace('_', '-')}", value, at_least=least)
    for name in _COUNTS:
        value = getattr(comparison, name)
        if value > comparison.updates:
            raise ValueError(
                f"--{name.replace('_', '-')} ({value}) exceeds --updates ({comparison.updates}); "
                "lower it"
            )
    if comparison.lr is not None:
        arguments.in_range("--lr", comparison.lr, above=0)
    arguments.no_separators("--output-dir", comparison.folder)
