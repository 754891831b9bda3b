"""tupe-compare: train position encodings with everything else equal."""

import argparse
import logging
import os
import sys
from typing import Dict, List, Optional, Tuple

import torch

from tupe_fairseq.command_flags.compare import get_parser
from tupe_fairseq.commands import arguments
from tupe_fairseq.commands.comparison_settings import settings_without_schedule, with_schedule
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.compare.checks import check_schemes, check_train_flags
from tupe_fairseq.compare.comparison import ComparisonRun
from tupe_fairseq.compare.parse_schemes import Scheme, parse_scheme, parse_schemes
from tupe_fairseq.compare.runner import first_runs, run_comparison
from tupe_fairseq.compare.time_limit import OutOfTime, TimeLimit
from tupe_fairseq.shell_text import show

logger = logging.getLogger("tupe-compare")

_UNFINISHED = 75  # sysexits.h: a temporary failure, try again


def main(argv: Optional[List[str]] = None) -> None:
    run_program(get_parser(), run, argv, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Check everything, then make the comparison.

    Raises:
        OSError, ValueError: if an input is absent or wrong, or a run fails.
    """
    seeds = _seeds(args.schemes, args.seeds)
    minutes = args.stop_after
    if minutes is not None:
        arguments.in_range("--stop-after", minutes, above=0)
    limit = TimeLimit(minutes and 60 * minutes)
    baseline = args.baseline and parse_scheme(args.baseline, "--baseline").label
    devices = _devices(args)
    settings = settings_without_schedule(args, len(devices))
    archs = _archs(args.arch)
    check_train_flags(settings, archs)
    parameters = {}
    for arch in archs:
        parameters.update(check_schemes(settings, arch, list(seeds)))
    comparison = with_schedule(settings, args)
    runs = _runs(archs, seeds)
    if args.seconds is not None and len(set(devices)) < len(devices):
        raise ValueError(
            f"--seconds needs a device for each run, and --parallel ({args.parallel}) puts several "
            "on one, where they slow each other down; lower it, or list more --gpus"
        )
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
            devices,
            keep_checkpoints=args.keep_checkpoints,
            limit=limit,
        )
    except OutOfTime as stopped:
        logger.info("stopped after %g minutes: %s; run it again to go on", minutes, stopped)
        sys.exit(_UNFINISHED)
    print(table)
    logger.info("written to %s: results.md, results.json and three figures", comparison.folder)


def _seeds(schemes: str, for_all: str) -> Dict[Scheme, Tuple[int, ...]]:
    """The seeds of each scheme."""
    others = arguments.seeds(for_all)
    return {
        scheme: others if own is None else arguments.seeds(own, f"--schemes {scheme.label!r} @")
        for scheme, own in parse_schemes(schemes).items()
    }


def _runs(archs: List[str], seeds: Dict[Scheme, Tuple[int, ...]]) -> List[ComparisonRun]:
    """All of them; the first seed of all schemes comes before the second of any."""
    return [
        ComparisonRun(arch, scheme, own[place])
        for arch in archs
        for place in range(max(map(len, seeds.values())))
        for scheme, own in seeds.items()
        if place < len(own)
    ]


def _archs(text: str) -> List[str]:
    archs = [arch.strip() for arch in text.split(",")]
    for arch in archs:
        if archs.count(arch) > 1:
            raise ValueError(f"--arch lists {arch} twice")
    return archs


def _devices(args: argparse.Namespace) -> List[Optional[str]]:
    """The value of CUDA_VISIBLE_DEVICES for each of the concurrent runs; None on the CPU."""
    if args.parallel is not None:
        arguments.in_range("--parallel", args.parallel, at_least=1)
    if args.cpu:
        for flag, given in (("--gpus", args.gpus is not None), ("--fp16", args.fp16)):
            if given:
                raise ValueError(f"{flag} needs a GPU; drop it, or drop --cpu")
        return [None] * (args.parallel or 1)
    gpus = arguments.numbers(
        "--gpus", args.gpus or "0", int, lambda gpu: gpu >= 0, "GPU number (0, 1, ...)"
    )
    parallel = len(gpus) if args.parallel is None else args.parallel
    if parallel < len(gpus):
        raise ValueError(
            f"--gpus {args.gpus} lists {len(gpus)}, and --parallel ({parallel}) uses fewer; list "
            "fewer, or raise --parallel"
        )
    if not args.dry_run and max(gpus) >= torch.cuda.device_count():
        raise ValueError(
            f"--gpus: there is no GPU {max(gpus)}; torch finds {torch.cuda.device_count()} here. "
            "To train on the CPU, pass --cpu"
        )
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names: Tuple[str, ...] = tuple(visible.split(",")) if visible else ()
    return [
        names[gpu] if gpu < len(names) else str(gpu)
        for gpu in (gpus[number % len(gpus)] for number in range(parallel))
    ]


if __name__ == "__main__":
    main()
