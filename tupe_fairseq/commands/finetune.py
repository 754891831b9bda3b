"""tupe-finetune: the paper's fine-tuning protocol for a task."""

import argparse
import logging
import os
from dataclasses import replace

import torch

from tupe_fairseq.command_flags import arguments
from tupe_fairseq.command_flags.finetune import check, get_parser
from tupe_fairseq.command_flags.given_paths import no_separators
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.fairseq_runs.command import show
from tupe_fairseq.files.names import CLS
from tupe_fairseq.finetune.class_weights import balanced_weights
from tupe_fairseq.finetune.default_epochs import default_epochs
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun, RunSettings
from tupe_fairseq.finetune.pretrained import read_pretrained
from tupe_fairseq.finetune.protocol import run_protocol
from tupe_fairseq.finetune.selection import by_metric
from tupe_fairseq.finetune.task_data import check_together, read_task_data
from tupe_fairseq.labelled.task_description import TAGGING

logger = logging.getLogger("tupe-finetune")


def main(argv: list[str] | None = None) -> None:
    run_program(get_parser(), run, argv, check=check, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Check the rest, then run the protocol.

    Raises:
        OSError, ValueError: if an input is absent or wrong, or a run fails.
    """
    lrs, seeds = arguments.learning_rates(args.lrs), arguments.seeds(args.seeds)
    runs = [FineTuningRun(lr, seed) for lr in lrs for seed in seeds]
    settings = RunSettings(
        # until the data say how many
        epochs=1 if args.epochs is None else args.epochs,
        batch_size=args.batch_size,
        update_freq=args.update_freq,
        gpus=0 if args.cpu else (1 if args.gpus is None else args.gpus),
        fp16=args.fp16,
        dropout=args.dropout,
        weight_decay=args.weight_decay,
        pretrained=not args.no_pretraining,
        metric=args.metric,
        patience=args.patience,
        pooling=None if args.pooling == CLS else args.pooling,
    )
    if not args.dry_run:
        _check_device(settings.gpus)
    data, model = read_task_data(args.data, args.task), read_pretrained(args.checkpoint)
    check_together(data, model)
    if settings.pooling is not None and data.task.kind == TAGGING:
        raise ValueError(
            f"--pooling {settings.pooling} makes one vector of a text, and {data.task.name} has a "
            "tag for each word; drop it"
        )
    data = replace(data, task=by_metric(data.task, args.metric))
    if args.balance:
        settings = replace(settings, class_weights=balanced_weights(data))
    folder = os.path.join(os.path.abspath(args.output_dir), data.task.name)
    no_separators("the folder of runs", folder)
    experiment = Experiment(folder, data, model, settings)
    if args.epochs is None:
        settings = replace(settings, epochs=_epochs(experiment))
        experiment = replace(experiment, settings=settings)
    if args.dry_run:
        for one in runs:
            show(experiment.script(one))
        return
    print(run_protocol(experiment, runs, args.keep_checkpoints))
    logger.info("all tasks: %s", os.path.join(os.path.dirname(folder), "results.md"))


def _epochs(experiment: Experiment) -> int:
    """The task's epochs, or more."""
    data = experiment.data
    epochs = default_epochs(data.task, experiment.updates_per_epoch)
    if epochs != data.task.epochs:
        logger.info("%d epochs, because there are only %d rows", epochs, data.rows["train"])
    return epochs


def _check_device(gpus: int) -> None:
    found = torch.cuda.device_count()
    if gpus > found:
        raise ValueError(
            f"--gpus ({gpus}) exceeds the {found} that torch finds on this machine; "
            + ("lower it" if found else "pass --cpu to train on the CPU")
        )


if __name__ == "__main__":
    main()
