"""tupe-compare: position encodings, trained with everything else equal."""

import argparse
import logging
import math
import os
import shlex
import signal
import sys
from typing import List, Optional, Tuple

import torch

from tupe_fairseq.commands.program import run_program
from tupe_fairseq.compare.checks import check_schemes, check_train_flags
from tupe_fairseq.compare.comparison import Comparison, Run
from tupe_fairseq.compare.data import check_data
from tupe_fairseq.compare.machine import cores
from tupe_fairseq.compare.protocol import echo, run_comparison
from tupe_fairseq.compare.schemes import parse_scheme, parse_schemes
from tupe_fairseq.position import CATALOGUE
from tupe_fairseq.training.seeds import parse_numbers, parse_seeds

logger = logging.getLogger("tupe-compare")

_WARMUP = 20  # one of so many updates
_VALIDATIONS = 20


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-compare",
        description="Pre-train a tupe_roberta with each position encoding and seed, everything "
        "else equal, and write OUT/results.md (validation loss with its spread over the seeds, "
        "the updates to the baseline's final loss, parameters, speed, memory; of each size), "
        "OUT/results.json, "
        "OUT/loss_by_updates.png and OUT/loss_by_time.png. Each run is a plain fairseq-train "
        "command, which is shown. Finished runs are not run again, an interrupted one goes on "
        "from its last validation, and schemes, sizes and seeds may be added later.",
        epilog="example: tupe-compare data-bin --output-dir comparison --schemes "
        '"learned; learned --rel-pos; tupe; tupe --rel-pos" --arch tupe_roberta_tiny --seeds 1,2 '
        "--updates 2000 --cpu",
    )
    add = parser.add_argument
    add(
        "data",
        metavar="DATA",
        help="folder made by tupe-prepare-pretrain or fairseq-preprocess; shards with colons "
        "between them",
    )
    add("--output-dir", required=True, metavar="OUT", help="folder for runs and results")
    add(
        "--schemes",
        required=True,
        metavar="LIST",
        help="what --position-encoding may be, each followed by its own flags (--rel-pos, "
        "--rel-pos-buckets N, --max-rel-pos N, --tie-cls, --untie-cls, --symmetric-basis, "
        f"--position-each-layer), semicolons between them; names: {', '.join(CATALOGUE)}",
    )
    add("--updates", type=int, required=True, metavar="N", help="updates of each run")
    add("--seeds", default="1,2", metavar="LIST", help="fairseq's seeds; default %(default)s")
    add(
        "--baseline",
        metavar="SCHEME",
        help="one of the schemes, with which the others are compared; default: learned, or where "
        "that is not among them the first",
    )
    add = parser.add_argument_group("training, the same for all").add_argument
    add(
        "--arch",
        default="tupe_roberta_tiny",
        metavar="LIST",
        help="sizes of the model, tupe_roberta_tiny,tupe_roberta_mini, each compared for itself; "
        "default %(default)s; sizes without a name by --train-flags",
    )
    add("--batch-size", type=int, default=16, metavar="N", help="samples; default %(default)s")
    add("--tokens-per-sample", type=int, default=128, metavar="N", help="default %(default)s")
    add("--lr", type=float, default=1e-3, metavar="RATE", help="peak; default %(default)s")
    add("--warmup-updates", type=int, metavar="N", help="default: 5%% of --updates")
    add(
        "--validate-every",
        type=int,
        metavar="N",
        help="updates between validations, which also save the checkpoint to go on from; "
        "default: 5%% of --updates",
    )
    add(
        "--train-flags",
        default="",
        metavar="FLAGS",
        help="further flags of fairseq-train in one word: --train-flags='--encoder-layers 3 "
        "--dropout 0'",
    )
    add = parser.add_argument_group("machine").add_argument
    add("--cpu", action="store_true", help="train on the CPU")
    add("--fp16", action="store_true", help="mixed precision, on GPUs")
    add(
        "--gpus",
        metavar="LIST",
        help="numbers of the GPUs, as 0,1; each run takes one; default 0",
    )
    add(
        "--parallel",
        type=int,
        metavar="N",
        help="runs at once; speed and memory are then marked as measured side by side; default: "
        "as many as GPUs, 1 on the CPU",
    )
    add(
        "--threads",
        type=int,
        metavar="N",
        help="CPU threads of each run; default: OMP_NUM_THREADS, or the cores dealt over "
        "--parallel runs",
    )
    add(
        "--keep-checkpoints",
        action="store_true",
        help="keep checkpoint_last.pt of the runs that this call finishes (tupe-plot reads it); "
        "default: only of unfinished ones",
    )
    add("--dry-run", action="store_true", help="only check everything and show the commands")
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    run_program(get_parser(), run, argv)


def run(args: argparse.Namespace) -> None:
    """Check everything, then make the comparison.

    Raises:
        OSError, ValueError: if an input is absent or wrong, or a run fails.
    """
    schemes, seeds = parse_schemes(args.schemes), parse_seeds(args.seeds)
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
    # the schemes of a seed one after the other: a first seed of all comes before a second of any
    runs = [Run(arch, scheme, seed) for arch in archs for seed in seeds for scheme in schemes]
    if args.dry_run:
        for one in runs:
            echo(comparison, one)
        return
    # so that the running fairseq-train is ended, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    print(
        run_comparison(
            comparison, runs, parameters, baseline, devices, keep_checkpoints=args.keep_checkpoints
        )
    )
    logger.info("written to %s: results.md, results.json, two figures", comparison.folder)


def _archs(text: str) -> List[str]:
    archs = [arch.strip() for arch in text.split(",")]
    for arch in archs:
        if archs.count(arch) > 1:
            raise ValueError(f"--arch lists {arch} twice")
    return archs


def _devices(args: argparse.Namespace) -> List[Optional[str]]:
    """What CUDA_VISIBLE_DEVICES is to be for each of the runs at once; None on the CPU."""
    if args.parallel is not None and args.parallel < 1:
        raise ValueError(f"--parallel ({args.parallel}) must be 1 or more")
    if args.cpu:
        for flag, given in (("--gpus", args.gpus is not None), ("--fp16", args.fp16)):
            if given:
                raise ValueError(f"{flag} needs a GPU; drop it, or --cpu")
        return [None] * (args.parallel or 1)
    gpus = parse_numbers(
        "--gpus", args.gpus or "0", int, lambda gpu: gpu >= 0, "number of a GPU, from 0 on"
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
            "To train on the CPU give --cpu"
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
        if value < least:
            raise ValueError(f"--{name.replace('_', '-')} ({value}) must be {least} or more")
    for name in ("warmup_updates", "validate_every"):
        value = getattr(comparison, name)
        if value > comparison.updates:
            raise ValueError(
                f"--{name.replace('_', '-')} ({value}) exceeds --updates ({comparison.updates}); "
                "lower it"
            )
    if not 0 < comparison.lr < math.inf:
        raise ValueError(f"--lr ({comparison.lr}) must be a number above 0")
    if ":" in comparison.folder:
        raise ValueError(
            f"--output-dir {comparison.folder} has a colon, which separates folders for fairseq; "
            "use another path"
        )


if __name__ == "__main__":
    main()
