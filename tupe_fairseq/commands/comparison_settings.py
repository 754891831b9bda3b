"""The settings of tupe-compare, of its flags."""

import argparse
import os
from dataclasses import replace

from tupe_fairseq.command_flags.checked_compare import COUNTS, archs, rates, train_flags
from tupe_fairseq.command_flags.checked_readouts import given_readouts
from tupe_fairseq.compare.comparison import Comparison
from tupe_fairseq.compare.data_folders import check_data
from tupe_fairseq.compare.provenance import cores
from tupe_fairseq.compare.token_budget import updates_of_budget

_LR = 1e-3


def settings_without_schedule(args: argparse.Namespace, parallel: int) -> Comparison:
    """All but the number of updates and what follows from it: enough to check flags and schemes.

    Args:
        args (Namespace): the flags.
        parallel (int): the number of concurrent runs.
    Raises:
        OSError, ValueError: if the data are not there, or a number is out of range.
    """
    return Comparison(
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
        train_flags=train_flags(args.train_flags),
        readouts=given_readouts(args),
    )


def with_schedule(settings: Comparison, args: argparse.Namespace) -> Comparison:
    """The whole settings.

    Args:
        settings (Comparison): without schedule, but with flags that fairseq-train takes.
        args (Namespace): the flags.
    Raises:
        ValueError: if a number is out of range, or flags exclude each other.
    """
    grid = rates(args)
    whole = replace(settings, lr=None, tune_lrs=grid) if grid else settings
    given = {name: vars(args)[name] for name in COUNTS if vars(args)[name] is not None}
    if args.seconds is not None:
        return replace(whole, updates=0, validate_every=0, seconds=args.seconds)
    updates = args.updates
    if args.tokens is not None:
        updates = updates_of_budget(settings, archs(args.arch)[0], args.tokens)
    whole = replace(whole.of_length(updates), **given)
    _check_counts(whole)
    return whole


def _threads(given: int | None, parallel: int) -> int:
    if given is not None:
        return given
    found = os.environ.get("OMP_NUM_THREADS", "")
    return int(found) if found.isdigit() and int(found) else max(1, cores() // parallel)


def _check_counts(whole: Comparison) -> None:
    """The flags alone do not tell the updates of --tokens."""
    for name in COUNTS:
        value = getattr(whole, name)
        if value > whole.updates:
            raise ValueError(
                f"--{name.replace('_', '-')} ({value}) exceeds the {whole.updates} updates of "
                "--tokens; lower it"
            )
