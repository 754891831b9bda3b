"""tupe-compare: pre-train one model per position encoding and seed, everything else equal."""

import argparse
import logging
import os
import shlex

from tupe_fairseq.cli.arg_types import (
    arguments,
    at_least,
    comma_list,
    count,
    folder_with,
    one_of,
    positive,
    writable,
)
from tupe_fairseq.cli.extras import need
from tupe_fairseq.cli.shared_flags import (
    Parser,
    add_device_flags,
    add_user_dir_flag,
    training_devices,
)
from tupe_fairseq.compare.schemes import FLAGS, parse_schemes
from tupe_fairseq.options import ARCHITECTURES, POSITION_ENCODINGS, flag, violation

logger = logging.getLogger("tupe-compare")


def get_parser() -> Parser:
    parser = Parser(
        prog="tupe-compare",
        description="Pre-train a tupe_roberta with each position encoding and seed, everything "
        "else equal, and write tables with 95% intervals and figures to OUT. Finished runs are "
        "skipped and interrupted ones resume. Schemes, sizes and seeds can be added later. "
        "@FILE reads flags from a file, with # comments.",
        epilog="example: tupe-compare data-bin --output-dir comparison --schemes "
        '"learned; learned --rel-pos; tupe; tupe --rel-pos" --arch tupe_roberta_tiny '
        "--updates 2000",
        fromfile_prefix_chars="@",
    )
    parser.convert_arg_line_to_args = _split_line
    add = parser.add_argument
    add("data", metavar="DATA", type=_folders, help="folder of tupe-prepare-pretrain or "
        "fairseq-preprocess; parts separated by colons")  # fmt: skip
    add("--output-dir", required=True, metavar="OUT", type=writable, help="for runs and results")
    with_flags = ", ".join(own + " N" * (allowed is not bool) for own, allowed in FLAGS.items())
    add("--schemes", required=True, metavar="LIST", type=parse_schemes, help="position encodings "
        f"({', '.join(POSITION_ENCODINGS)}) separated by semicolons, each with its flags "
        f"({with_flags}); all are compared with learned, or else the first")  # fmt: skip
    add("--updates", required=True, type=count, metavar="N", help="updates of each run")
    add("--seeds", default=[1, 2, 3], metavar="LIST", type=comma_list(at_least(0)),
        help="default 1,2,3; two give no interval")  # fmt: skip
    add = parser.add_argument_group("training, the same for all runs").add_argument
    add("--arch", default=["tupe_roberta_tiny"], type=comma_list(one_of(*ARCHITECTURES)),
        metavar="LIST", help="model sizes, such as tupe_roberta_tiny,tupe_roberta_mini; default "
        "tupe_roberta_tiny; other sizes with --train-flags")  # fmt: skip
    add("--batch-size", type=count, default=16, metavar="N", help="in samples; default %(default)s")
    add("--tokens-per-sample", type=at_least(3), default=128, metavar="N", help="default 128")
    add("--lr", type=positive, metavar="RATE", help="peak learning rate; default 0.001")
    add("--tune-lrs", type=comma_list(positive), metavar="LIST", help="instead of --lr: for each "
        "scheme, use the rate with the lowest loss in a short run")  # fmt: skip
    add("--tune-updates", type=count, metavar="N", help="updates of the short runs; "
        "default: a tenth of --updates")  # fmt: skip
    add("--warmup-updates", type=at_least(0), metavar="N", help="default: 5%% of --updates")
    add("--validate-every", type=count, metavar="N", help="updates between validations, each of "
        "which saves the checkpoint to resume from; default: a tenth of --updates")  # fmt: skip
    add("--train-flags", type=arguments, default=(), metavar="FLAGS", help="further flags of "
        "fairseq-train, as one argument: --train-flags='--encoder-layers 3'")  # fmt: skip
    add_user_dir_flag(parser)
    add_device_flags(parser)
    add = parser.add_argument
    add("--threads", type=count, metavar="N", help="CPU threads of each run; default: "
        "OMP_NUM_THREADS, or the cores divided by --parallel")  # fmt: skip
    add("--keep-checkpoints", action="store_true", help="keep the last checkpoint of each run, "
        "for tupe-score and tupe-finetune")  # fmt: skip
    add("--dry-run", action="store_true", help="print the commands without running them")
    return parser


def _split_line(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError as error:  # of shlex: a quote is not closed
        raise ValueError(f"{error} in the line: {line.strip()}") from error


def _folders(text: str) -> str:
    """Folders separated by colons; fairseq reads dictionary and validation set from the first."""
    folders = text.split(":")
    folder_with("dict.txt", "valid.bin", "valid.idx")(folders[0])
    for folder in folders:
        folder_with("train.bin", "train.idx")(folder)
    return ":".join(map(os.path.abspath, folders))


def main(argv: list[str] | None = None) -> None:
    parser = get_parser()
    args = parser.parse_args(argv)
    _check(parser, args)
    # check now, not after hours of training
    need("fairseq", "matplotlib", "scipy", "tqdm")
    devices = training_devices(parser, args)

    from tupe_fairseq.compare.comparison import Comparison
    from tupe_fairseq.compare.pre_training import PreTraining, check_schemes
    from tupe_fairseq.runs.grid import exit_if_failed

    settings = _settings(args, devices)
    runs = [
        PreTraining(settings, arch, scheme, seed)
        for arch in args.arch
        for seed in args.seeds
        for scheme in args.schemes
    ]
    study = Comparison(runs, args.keep_checkpoints)
    runs[0].check()
    check_schemes(runs)
    if args.dry_run:
        print(study.scripts())
        if settings.tune_lrs:
            logger.info("then %d runs, each at the best rate of its scheme", len(runs))
        return
    page = study.run(devices, args.parallel)
    if page:
        print(page)
        logger.info("in %s: results.md, results.json, loss_by_updates.png", args.output_dir)
    exit_if_failed(study.failed)


def _check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse flags that do not go together; argparse has checked each flag alone."""
    for scheme in args.schemes:  # not in argparse: --user-dir may follow, and register the name
        words = violation(scheme.name, POSITION_ENCODINGS)
        if words:
            parser.error(f"--schemes: {scheme.name!r} must be {words}")
    if args.tune_lrs and args.lr:
        parser.error("--lr is one rate for all, --tune-lrs finds one for each; drop one")
    if args.tune_lrs and len(args.tune_lrs) < 2:
        parser.error("--tune-lrs takes two or more rates; for a single rate, use --lr")
    if args.tune_updates and not args.tune_lrs:
        parser.error("--tune-updates needs --tune-lrs")
    for name in ("warmup_updates", "validate_every", "tune_updates"):
        value = getattr(args, name) or 0
        if value > args.updates:
            parser.error(f"{flag(name)} ({value}) is above --updates ({args.updates}); lower it")


def _settings(args: argparse.Namespace, devices: list[str]):
    from tupe_fairseq.compare.settings import Settings
    from tupe_fairseq.runs.grid import default_threads

    def share(value: int | None, parts: int, least: int) -> int:
        return max(least, args.updates // parts) if value is None else value

    names = ("data", "user_dir", "updates", "batch_size", "tokens_per_sample", "fp16",
             "train_flags")  # fmt: skip
    return Settings(
        output_dir=os.path.abspath(args.output_dir),
        cpu=args.cpu if args.dry_run else devices == [""],
        warmup_updates=share(args.warmup_updates, 20, 0),
        validate_every=share(args.validate_every, 10, 1),
        lr=args.lr or 1e-3,
        tune_lrs=tuple(sorted(args.tune_lrs or ())),
        tune_updates=share(args.tune_updates, 10, 1) if args.tune_lrs else 0,
        threads=args.threads or default_threads(args.parallel or len(devices)),
        **{name: getattr(args, name) for name in names},
    )
