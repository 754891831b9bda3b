"""tupe-compare: train position encodings with everything else equal."""

import argparse
import logging
import os
import shlex
from typing import Any, Dict, List, Optional, Tuple

import torch

from tupe_fairseq.command_flags.compare import get_parser
from tupe_fairseq.commands import arguments
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.compare.checks import check_schemes, check_train_flags
from tupe_fairseq.compare.comparison import Comparison, ComparisonRun, check_data
from tupe_fairseq.compare.parse_schemes import Scheme, parse_scheme, parse_schemes
from tupe_fairseq.compare.provenance import cores
from tupe_fairseq.compare.runner import run_comparison
from tupe_fairseq.compare.tuning import at_each_rate, tuned, tuning_runs
from tupe_fairseq.shell_text import show

logger = logging.getLogger("tupe-compare")

_LR = 1e-3
_WARMUP = 20  # one of so many updates
_VALIDATIONS = 20
_TUNING = 10  # its runs have one of so many updates


def main(argv: Optional[List[str]] = None) -> None:
    run_program(get_parser(), run, argv, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Check everything, then make the comparison.

    Raises:
        OSError, ValueError: if an input is absent or wrong, or a run fails.
    """
    seeds = _seeds(args.schemes, args.seeds)
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
        lr=_lr(args),
        cpu=args.cpu,
        fp16=args.fp16,
        threads=_threads(args.threads, len(devices)),
        train_flags=tuple(shlex.split(args.train_flags)),
        **_tuning(args),
    )
    _check(comparison)
    archs = _archs(args.arch)
    # flags are the same at each rate
    (example, *_) = at_each_rate(comparison) or [comparison]
    check_train_flags(example, archs)
    parameters = {}
    for arch in archs:
        parameters.update(check_schemes(example, arch, list(seeds)))
    # the first seed of all schemes comes before the second of any
    runs = [
        ComparisonRun(arch, scheme, own[place])
        for arch in archs
        for place in range(max(map(len, seeds.values())))
        for scheme, own in seeds.items()
        if place < len(own)
    ]
    if args.dry_run:
        short = tuning_runs(comparison, runs)
        for own, run in short or tuned(comparison, runs):
            show(own.script(run))
        if short:
            logger.info("then %d runs, each at the best rate of its scheme", len(runs))
        return
    print(
        run_comparison(
            comparison, runs, parameters, baseline, devices, keep_checkpoints=args.keep_checkpoints
        )
    )
    logger.info("written to %s: results.md, results.json and three figures", comparison.folder)


def _seeds(schemes: str, for_all: str) -> Dict[Scheme, Tuple[int, ...]]:
    """The seeds of each scheme."""
    others = arguments.seeds(for_all)
    return {
        scheme: others if own is None else arguments.seeds(own, f"--schemes {scheme.label!r} @")
        for scheme, own in parse_schemes(schemes).items()
    }


def _lr(args: argparse.Namespace) -> Optional[float]:
    if args.tune_lrs is None:
        return _LR if args.lr is None else args.lr
    if args.lr is not None:
        raise ValueError(
            "--lr is one rate for all, --tune-lrs finds one for each; drop one of them"
        )
    return None


def _tuning(args: argparse.Namespace) -> Dict[str, Any]:
    """The settings of the runs that decide the rates; none without --tune-lrs."""
    if args.tune_lrs is None:
        if args.tune_updates is not None:
            raise ValueError("--tune-updates is for --tune-lrs; give both, or drop it")
        return {}
    rates = arguments.learning_rates(args.tune_lrs, "--tune-lrs")
    if len(rates) < 2:
        raise ValueError(f"--tune-lrs {args.tune_lrs}: give two rates or more, or one by --lr")
    given = args.tune_updates
    updates = max(1, args.updates // _TUNING) if given is None else given
    arguments.in_range("--tune-updates", updates, at_least=1)
    return {"tune_lrs": tuple(sorted(rates)), "tune_updates": updates}


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
    ):
        value = getattr(comparison, name)
        arguments.in_range(f"--{name.replace('_', '-')}", value, at_least=least)
    for name in ("warmup_updates", "validate_every", "tune_updates"):
        value = getattr(comparison, name)
        if value > comparison.updates:
            raise ValueError(
                f"--{name.replace('_', '-')} ({value}) exceeds --updates ({comparison.updates}); "
                "lower it"
            )
    if comparison.lr is not None:
        arguments.in_range("--lr", comparison.lr, above=0)
    arguments.no_separators("--output-dir", comparison.folder)


if __name__ == "__main__":
    main()
