"""tupe-compare: train position encodings with everything else equal."""

import argparse
import logging
import os
import shlex
from typing import List, Optional, Tuple

import torch

from tupe_fairseq.commands import arguments
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.compare.checks import check_schemes, check_train_flags
from tupe_fairseq.compare.comparison import Comparison, ComparisonRun, check_data
from tupe_fairseq.compare.parse_schemes import FLAGS, parse_scheme, parse_schemes
from tupe_fairseq.compare.provenance import cores
from tupe_fairseq.compare.runner import run_comparison
from tupe_fairseq.position import CATALOGUE
from tupe_fairseq.programs.command import show

logger = logging.getLogger("tupe-compare")

_WARMUP = 20  # one of so many updates
_VALIDATIONS = 20


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-compare",
        description="Pre-train a tupe_roberta with each position encoding and seed, everything "
        "else equal, and write OUT/results.md (validation loss with its spread over the seeds, "
        "the updates to the baseline's final loss, parameters, speed and memory, for each model "
        "size), OUT/results.json, "
        "OUT/loss_by_updates.png and OUT/loss_by_time.png. Each run is a plain fairseq-train "
        "command, which is printed. Finished runs are not repeated, an interrupted one resumes "
        "from its last validation, and schemes, sizes and seeds can be added later.",
        epilog="example: tupe-compare data-bin --output-dir comparison --schemes "
        '"learned; learned --rel-pos; tupe; tupe --rel-pos" --arch tupe_roberta_tiny --seeds 1,2 '
        "--updates 2000 --cpu",
    )
    add = parser.add_argument
    add(
        "data",
        metavar="DATA",
        help="folder made by tupe-prepare-pretrain or fairseq-preprocess; shards separated "
        "by colons",
    )
    add("--output-dir", required=True, metavar="OUT", help="folder for runs and results")
    add(
        "--schemes",
        required=True,
        metavar="LIST",
        help="position encodings separated by semicolons, each followed by its own flags "
        f"({', '.join(flag + ' N' * number for flag, number in FLAGS.items())}); names: "
        f"{', '.join(CATALOGUE)}",
    )
    add("--updates", type=int, required=True, metavar="N", help="number of updates of each run")
    add("--seeds", default="1,2", metavar="LIST", help="fairseq's seeds; default %(default)s")
    add(
        "--baseline",
        metavar="SCHEME",
        help="the scheme that the others are compared with; default: learned, or the "
        "first scheme if learned is not listed",
    )
    add = parser.add_argument_group("training settings, the same for all runs").add_argument
    add(
        "--arch",
        default="tupe_roberta_tiny",
        metavar="LIST",
        help="model sizes, such as tupe_roberta_tiny,tupe_roberta_mini; each gets its own "
        "comparison; default %(default)s; for other sizes use --train-flags",
    )
    add(
        "--batch-size",
        type=int,
        default=16,
        metavar="N",
        help="samples per update; default %(default)s",
    )
    add("--tokens-per-sample", type=int, default=128, metavar="N", help="default %(default)s")
    add(
        "--lr",
        type=float,
        default=1e-3,
        metavar="RATE",
        help="peak learning rate; default %(default)s",
    )
    add("--warmup-updates", type=int, metavar="N", help="default: 5%% of --updates")
    add(
        "--validate-every",
        type=int,
        metavar="N",
        help="updates between validations, which also save the checkpoint to resume from; "
        "default: 5%% of --updates",
    )
    add(
        "--train-flags",
        default="",
        metavar="FLAGS",
        help="further fairseq-train flags, quoted as one argument: --train-flags='--encoder-layers "
        "3 --dropout 0'",
    )
    add = parser.add_argument_group("machine").add_argument
    add("--cpu", action="store_true", help="train on the CPU")
    add("--fp16", action="store_true", help="mixed precision, on GPUs")
    add(
        "--gpus",
        metavar="LIST",
        help="GPU numbers, such as 0,1; each run uses one; default 0",
    )
    add(
        "--parallel",
        type=int,
        metavar="N",
        help="number of concurrent runs; speed and memory are then marked as measured "
        "concurrently; default: one per GPU, 1 on the CPU",
    )
    add(
        "--threads",
        type=int,
        metavar="N",
        help="CPU threads of each run; default: OMP_NUM_THREADS, or the cores divided "
        "by --parallel",
    )
    add(
        "--keep-checkpoints",
        action="store_true",
        help="keep checkpoint_last.pt of the runs that finish in this call (for tupe-plot); "
        "default: only of unfinished runs",
    )
    add(
        "--dry-run",
        action="store_true",
        help="check everything and print the commands, without running them",
    )
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    run_program(get_parser(), run, argv, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Check everything, then make the comparison.

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
        train_flags=tuple(shlex.split(args.train_flags)),
    )
    _check(comparison)
    archs = _archs(args.arch)
    check_train_flags(comparison, archs)
    parameters = {}
    for arch in archs:
        parameters.update(check_schemes(comparison, arch, schemes))
    # the first seed of all schemes comes before the second of any
    runs = [
        ComparisonRun(arch, scheme, seed) for arch in archs for seed in seeds for scheme in schemes
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
    for name in ("warmup_updates", "validate_every"):
        value = getattr(comparison, name)
        if value > comparison.updates:
            raise ValueError(
                f"--{name.replace('_', '-')} ({value}) exceeds --updates ({comparison.updates}); "
                "lower it"
            )
    arguments.in_range("--lr", comparison.lr, above=0)
    arguments.no_separators("--output-dir", comparison.folder)


if __name__ == "__main__":
    main()
