"""tupe-compare: train position encodings with everything else equal."""

import argparse
import logging
import os
import sys

import torch

from tupe_fairseq.command_flags.checked_compare import archs, check, gpus, seeds_of_schemes
from tupe_fairseq.command_flags.checked_readouts import given_claims
from tupe_fairseq.command_flags.compare import get_parser
from tupe_fairseq.commands.comparison_settings import settings_without_schedule, with_schedule
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.compare.checks import check_schemes, check_train_flags
from tupe_fairseq.compare.comparison import ComparisonRun
from tupe_fairseq.compare.parse_schemes import Scheme, parse_scheme
from tupe_fairseq.compare.runner import first_runs, run_comparison
from tupe_fairseq.compare.time_limit import OutOfTime, TimeLimit
from tupe_fairseq.fairseq_runs.command import show

logger = logging.getLogger("tupe-compare")

_UNFINISHED = 75  # sysexits.h: a temporary failure, try again


def main(argv: list[str] | None = None) -> None:
    run_program(get_parser(), run, argv, check=check, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Check the rest, then make the comparison.

    Raises:
        OSError, ValueError: if an input is absent or wrong, or a run fails.
    """
    seeds = seeds_of_schemes(args)
    minutes = args.stop_after
    limit = TimeLimit(minutes and 60 * minutes)
    baseline = args.baseline and parse_scheme(args.baseline, "--baseline").label
    devices = _devices(args)
    settings = settings_without_schedule(args, len(devices))
    sizes = archs(args.arch)
    check_train_flags(settings, sizes[0])
    parameters = {}
    for arch in sizes:
        parameters.update(check_schemes(settings, arch, list(seeds)))
    comparison = with_schedule(settings, args)
    runs = _runs(sizes, seeds)
    if args.dry_run:
        first, then = first_runs(comparison, runs)
        for own, run in first:
            show(own.script(run))
        if then:
            logger.info(then, len(runs))
        return
    try:
        table = run_comparison(
            comparison,
            runs,
            parameters,
            baseline,
            given_claims(args, [scheme.label for scheme in seeds], comparison.readouts),
            devices,
            keep_checkpoints=args.keep_checkpoints,
            limit=limit,
        )
    except OutOfTime as stopped:
        logger.info("stopped after %g minutes: %s; run it again to go on", minutes, stopped)
        sys.exit(_UNFINISHED)
    print(table)
    logger.info("written to %s: results.md, results.json and figures", comparison.folder)


def _runs(sizes: list[str], seeds: dict[Scheme, tuple[int, ...]]) -> list[ComparisonRun]:
    """All of them; the first seed of all schemes comes before the second of any."""
    return [
        ComparisonRun(arch, scheme, own[place])
        for arch in sizes
        for place in range(max(map(len, seeds.values())))
        for scheme, own in seeds.items()
        if place < len(own)
    ]


def _devices(args: argparse.Namespace) -> list[str | None]:
    """The value of CUDA_VISIBLE_DEVICES for each of the concurrent runs; None on the CPU."""
    if args.cpu:
        return [None] * (args.parallel or 1)
    numbers = gpus(args)
    if not args.dry_run and max(numbers) >= torch.cuda.device_count():
        raise ValueError(
            f"--gpus: there is no GPU {max(numbers)}; torch finds {torch.cuda.device_count()} "
            "here. To train on the CPU, pass --cpu"
        )
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names: tuple[str, ...] = tuple(visible.split(",")) if visible else ()
    return [
        names[gpu] if gpu < len(names) else str(gpu)
        for gpu in (numbers[place % len(numbers)] for place in range(args.parallel or len(numbers)))
    ]


if __name__ == "__main__":
    main()
