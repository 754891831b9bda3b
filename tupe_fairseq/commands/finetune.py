"""tupe-finetune: the paper's fine-tuning protocol for a GLUE task."""

import argparse
import logging
import os
import signal
import sys
from typing import List, Optional

import torch

from tupe_fairseq.commands import arguments
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun, RunSettings
from tupe_fairseq.finetune.pretrained import read_pretrained
from tupe_fairseq.finetune.protocol import run_protocol
from tupe_fairseq.finetune.task_data import check_together, read_task_data
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS, task_named
from tupe_fairseq.programs.command import show

logger = logging.getLogger("tupe-finetune")


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-finetune",
        description="Fine-tune a checkpoint on a GLUE task with each learning rate and seed, pick "
        "checkpoints by the task's own metric, and write RUNS/TASK/results.md (each run, the "
        "median of each learning rate), RUNS/results.md (all tasks) and RUNS/submission/. Each "
        "run is a plain fairseq-train command, which is printed. Finished runs are not repeated.",
        epilog="example: tupe-finetune --task CoLA --data glue/CoLA "
        "--checkpoint checkpoints/checkpoint_last.pt --output-dir runs --lrs 2e-5,3e-5 --seeds 1,2",
    )
    add = parser.add_argument
    add("--task", required=True, metavar="TASK", help=", ".join(GLUE_TASKS))
    add("--data", required=True, metavar="OUT/TASK", help="folder made by tupe-prepare-glue")
    add("--checkpoint", required=True, metavar="FILE", help="pre-trained tupe_roberta checkpoint")
    add("--output-dir", required=True, metavar="RUNS", help="folder for the runs of all tasks")
    add("--lrs", default="2e-5,3e-5,4e-5,5e-5", help="peak learning rates; default %(default)s")
    add("--seeds", default="1,2,3,4,5", help="default %(default)s")
    add(
        "--epochs",
        type=int,
        metavar="N",
        help="default, as in the paper: 5 for MNLI, QNLI and QQP, else 10",
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


def main(argv: Optional[List[str]] = None) -> None:
    run_program(get_parser(), run, argv, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Check everything, then run the protocol.

    Raises:
        OSError, ValueError: if an input is absent or wrong, or a run fails.
    """
    task = task_named(args.task)
    lrs, seeds = arguments.learning_rates(args.lrs), arguments.seeds(args.seeds)
    runs = [FineTuningRun(lr, seed) for lr in lrs for seed in seeds]
    settings = RunSettings(
        epochs=task.epochs if args.epochs is None else args.epochs,
        batch_size=args.batch_size,
        update_freq=args.update_freq,
        gpus=0 if args.cpu else (1 if args.gpus is None else args.gpus),
        fp16=args.fp16,
        dropout=args.dropout,
        weight_decay=args.weight_decay,
        pretrained=not args.no_pretraining,
    )
    _check(settings, args.cpu)
    if not args.dry_run:
        _check_device(settings.gpus)
    for flag in ("data", "checkpoint", "output_dir"):
        path = os.path.abspath(getattr(args, flag))
        arguments.no_separators(f"--{flag.replace('_', '-')}", path)
    data, model = read_task_data(args.data, task), read_pretrained(args.checkpoint)
    check_together(data, model)
    folder = os.path.join(os.path.abspath(args.output_dir), task.name)
    experiment = Experiment(folder, data, model, settings)
    if args.dry_run:
        for one in runs:
            show(experiment.script(one))
        return
    # so that the running fairseq-train is stopped, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    print(run_protocol(experiment, runs, args.keep_checkpoints))
    logger.info("all tasks: %s", os.path.join(os.path.dirname(folder), "results.md"))


def _check(settings: RunSettings, cpu: bool) -> None:
    for name in ("epochs", "batch_size", "update_freq"):
        arguments.in_range(f"--{name.replace('_', '-')}", getattr(settings, name), at_least=1)
    if not cpu and settings.gpus < 1:
        raise ValueError(
            f"--gpus ({settings.gpus}) must be at least 1; to train on the CPU, pass --cpu"
        )
    if cpu and settings.fp16:
        raise ValueError("--fp16 needs a GPU; drop it, or drop --cpu")
    arguments.in_range("--dropout", settings.dropout, at_least=0, below=1)
    arguments.in_range("--weight-decay", settings.weight_decay, at_least=0)


def _check_device(gpus: int) -> None:
    found = torch.cuda.device_count()
    if gpus > found:
        raise ValueError(
            f"--gpus ({gpus}) exceeds the {found} that torch finds on this machine; "
            + ("lower it" if found else "pass --cpu to train on the CPU")
        )


if __name__ == "__main__":
    main()
