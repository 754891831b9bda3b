"""tupe-finetune's flags."""

import argparse
import os

from tupe_fairseq.command_flags.arguments import in_range, learning_rates, seeds
from tupe_fairseq.command_flags.given_paths import can_be_written, check_is_file, no_separators
from tupe_fairseq.files.names import CLS, POOLING_NAMES
from tupe_fairseq.finetune.default_epochs import FEWEST_UPDATES, MOST_EPOCHS
from tupe_fairseq.finetune.prepared_folder import check_is_prepared
from tupe_fairseq.labelled.metrics import METRICS


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-finetune",
        description="Fine-tune a checkpoint on a task, one of GLUE's or one's own, with each "
        "learning rate and seed, pick checkpoints by the task's metric, and write "
        "RUNS/TASK/results.md (each run, the median of each learning rate), pictures beside it, "
        "RUNS/results.md (all tasks) and, for GLUE, RUNS/submission/. Each run is a plain "
        "fairseq-train command, which is printed. Finished runs are not repeated.",
        epilog="example: tupe-finetune --data glue/CoLA "
        "--checkpoint checkpoints/checkpoint_last.pt --output-dir runs --lrs 2e-5,3e-5 --seeds 1,2",
    )
    add = parser.add_argument
    add(
        "--task",
        metavar="TASK",
        help="the task that --data must be of; its report.json says what is learned",
    )
    add(
        "--data",
        required=True,
        metavar="OUT/TASK",
        help="folder made by tupe-prepare-glue or tupe-prepare-task",
    )
    add("--checkpoint", required=True, metavar="FILE", help="pre-trained tupe_roberta checkpoint")
    add("--output-dir", required=True, metavar="RUNS", help="folder for the runs of all tasks")
    add("--lrs", default="2e-5,3e-5,4e-5,5e-5", help="peak learning rates; default %(default)s")
    add("--seeds", default="1,2,3,4,5", help="default %(default)s")
    add(
        "--epochs",
        type=int,
        metavar="N",
        help="passes over the training set; default, as in the paper: 5 for MNLI, QNLI and QQP, "
        f"else 10; of one's own data more if it is small, as many as make {FEWEST_UPDATES} "
        f"updates, but at most {MOST_EPOCHS}",
    )
    add(
        "--patience",
        type=int,
        metavar="N",
        help="stop a run after N epochs without a better score; default: never. The learning rate "
        "falls as if it went on; a run that is interrupted counts anew",
    )
    add(
        "--pooling",
        choices=POOLING_NAMES,
        default=CLS,
        help="what the new head gets of a text: cls, the features of <s>, or mean, the mean of "
        "those of all its tokens, <s> and </s> among them; mean is not for tags of "
        "words; default %(default)s",
    )
    add(
        "--metric",
        metavar="NAME",
        help="pick checkpoints by another metric of the task's kind: " + ", ".join(METRICS),
    )
    add(
        "--balance",
        action="store_true",
        help="weigh the classes in the loss, by n / (C n_c) for n_c of n rows or words and C "
        "classes; for several labels a row, those with a label by the number of rows without it "
        "for each of them",
    )
    add(
        "--batch-size",
        type=int,
        default=32,
        metavar="N",
        help="rows per batch on each GPU; default 32",
    )
    add(
        "--update-freq",
        type=int,
        default=1,
        metavar="N",
        help="batches to accumulate per update; default 1",
    )
    devices = parser.add_mutually_exclusive_group()
    devices.add_argument("--gpus", type=int, metavar="N", help="number of GPUs; default 1")
    devices.add_argument("--cpu", action="store_true", help="train on the CPU")
    add("--fp16", action="store_true", help="mixed precision, on GPUs")
    add("--dropout", type=float, default=0.1, metavar="P", help="default %(default)s")
    add("--weight-decay", type=float, default=0.01, metavar="W", help="default %(default)s")
    add(
        "--no-pretraining",
        action="store_true",
        help="for comparison: use only the checkpoint's model size and start from "
        "random weights; the tables say so",
    )
    add(
        "--keep-checkpoints",
        action="store_true",
        help="keep the best checkpoint of each run, not only the best run's",
    )
    add("--dry-run", action="store_true", help="print the commands without running them")
    return parser


def check(args: argparse.Namespace) -> None:
    """Refuse what is wrong whatever is in the files.

    Raises:
        OSError, ValueError: the message names the flag.
    """
    check_numbers(args)
    for flag in ("data", "checkpoint", "output_dir"):
        no_separators(f"--{flag.replace('_', '-')}", os.path.abspath(getattr(args, flag)))
    check_is_prepared(args.data)
    check_is_file("--checkpoint", args.checkpoint, "; give a pre-trained checkpoint")
    if not args.dry_run:
        can_be_written("--output-dir", args.output_dir)


def check_numbers(args: argparse.Namespace) -> None:
    """Refuse what is wrong wherever the files are.

    Raises:
        ValueError: the message names the flag.
    """
    learning_rates(args.lrs)
    seeds(args.seeds)
    for name in ("epochs", "batch_size", "update_freq", "patience"):
        value = getattr(args, name)
        if value is not None:
            in_range(f"--{name.replace('_', '-')}", value, at_least=1)
    if args.gpus is not None and args.gpus < 1:
        raise ValueError(
            f"--gpus ({args.gpus}) must be at least 1; to train on the CPU, pass --cpu"
        )
    if args.cpu and args.fp16:
        raise ValueError("--fp16 needs a GPU; drop it, or drop --cpu")
    in_range("--dropout", args.dropout, at_least=0, below=1)
    in_range("--weight-decay", args.weight_decay, at_least=0)
    if args.metric is not None and args.metric not in METRICS:
        raise ValueError(f"--metric {args.metric} is unknown; there are {', '.join(METRICS)}")
