"""tupe-compare: train position encodings with everything else equal."""

import argparse
import logging
import os
from typing import List, Optional, Tuple

import torch

from tupe_fairseq.command_flags import arguments
from tupe_fairseq.command_flags.checked_compare import archs, check, gpus, train_flags
from tupe_fairseq.command_flags.compare import get_parser
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.compare.checks import check_schemes, check_train_flags
from tupe_fairseq.compare.comparison import Comparison, ComparisonRun
from tupe_fairseq.compare.data_folders import check_data
from tupe_fairseq.compare.parse_schemes import parse_scheme, parse_schemes
from tupe_fairseq.compare.provenance import cores
from tupe_fairseq.compare.runner import run_comparison
from tupe_fairseq.shell_text import show

logger = logging.getLogger("tupe-compare")

_WARMUP = 20  # one of so many updates
_VALIDATIONS = 20


def main(argv: Optional[List[str]] = None) -> None:
    run_program(get_parser(), run, argv, check=check, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Check the rest, then make the comparison.

    Raises:
        OSError, ValueError: if an input is absent or wrong, or a run fails.
    """
    schemes, seeds = parse_schemes(args.schemes), arguments.seeds(args.seeds)
    baseline = args.baseline and parse_scheme(args.baseline, "--baseline").label
    devices = _devices(args)
    comparison = Comparison(
        folder=os.path.abspath(args.output_dir),
        data=check_data(args.data),
        updates=args.updates,
        warmup_updates=(
            args.updates // _WARMUP if args.warmup_updates is None else args.warmup_updates
        ),
        validate_every=(
            max(1, args.updates // _VALIDATIONS)
            if args.validate_every is None
            else args.validate_every
        ),
        batch_size=args.batch_size,
        tokens_per_sample=args.tokens_per_sample,
        lr=args.lr,
        cpu=args.cpu,
        fp16=args.fp16,
        threads=_threads(args.threads, len(devices)),
        train_flags=train_flags(args.train_flags),
    )
    sizes = archs(args.arch)
    check_train_flags(comparison, sizes[0])
    parameters = {}
    for arch in sizes:
        parameters.update(check_schemes(comparison, arch, schemes))
    # the first seed of all schemes comes before the second of any
    runs = [
        ComparisonRun(arch, scheme, seed) for arch in sizes for seed in seeds for scheme in schemes
    ]
    if args.dry_run:
        for one in runs:
            show(comparison.script(one))
        return
    print(
        run_comparison(
            comparison, runs, parameters, baseline, devices, keep_checkpoints=args.keep_checkpoints
        )
    )
    logger.info("written to %s: results.md, results.json and two figures", comparison.folder)


def _devices(args: argparse.Namespace) -> List[Optional[str]]:
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
    names: Tuple[str, ...] = tuple(visible.split(",")) if visible else ()
    return [
        names[gpu] if gpu < len(names) else str(gpu)
        for gpu in (numbers[place % len(numbers)] for place in range(args.parallel or len(numbers)))
    ]


def _threads(given: Optional[int], parallel: int) -> int:
    if given is not None:
        return given
    found = os.environ.get("OMP_NUM_THREADS", "")
    return int(found) if found.isdigit() and int(found) else max(1, cores() // parallel)


if __name__ == "__main__":
    main()
