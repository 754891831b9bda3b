"""tupe-finetune: the paper's fine-tuning protocol for a task."""

import argparse
import logging
import os
import shlex
from dataclasses import replace
from typing import Any

from tupe_fairseq.cli.arg_types import (
    arguments,
    at_least,
    checkpoint,
    comma_list,
    count,
    folder_with,
    fraction,
    no_colon,
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
from tupe_fairseq.data.metrics import METRICS

#: learning rates and seeds: the paper's, for your own task with fewer rows, for each fold
PAPER_GRID = (2e-5, 3e-5, 4e-5, 5e-5), (1, 2, 3, 4, 5)
SMALL_GRID, FEW_ROWS = ((2e-5, 5e-5), (1, 2)), 1000
FOLD_GRID = (3e-5,), (1,)
#: with fewer rows for validation, a single row changes the score by more than 2%
FEW_VALID_ROWS = 50

logger = logging.getLogger("tupe-finetune")


def get_parser() -> Parser:
    parser = Parser(
        prog="tupe-finetune",
        description="Fine-tune a checkpoint on a GLUE task or your own with several learning rates "
        "and seeds, and write the scores, figures and the best model to RUNS/TASK. Each run "
        "is a fairseq-train command (command.sh in its folder); finished runs are not repeated.",
        epilog="example: tupe-finetune --data glue/CoLA --checkpoint checkpoint_last.pt "
        "--output-dir runs",
    )
    add = parser.add_argument
    add("--data", required=True, type=no_colon(folder_with("report.json")), metavar="OUT/TASK",
        help="folder made by tupe-prepare-glue or tupe-prepare-task")  # fmt: skip
    add("--checkpoint", required=True, type=checkpoint, metavar="FILE",
        help="pre-trained checkpoint of tupe_roberta")  # fmt: skip
    add("--output-dir", required=True, type=no_colon(writable), metavar="RUNS",
        help="folder for all tasks")  # fmt: skip
    add("--lrs", type=comma_list(positive), metavar="LIST", help="peak learning rates; default "
        "2e-5,3e-5,4e-5,5e-5 as in the paper, 2e-5,5e-5 for your own task with fewer than "
        f"{FEW_ROWS} rows, 3e-5 for folds")  # fmt: skip
    add("--seeds", type=comma_list(at_least(0)), metavar="LIST",
        help="default 1,2,3,4,5; 1,2 for your own task with fewer rows; 1 for folds")  # fmt: skip
    add("--epochs", type=count, metavar="N", help="default 5 for MNLI, QNLI and QQP, else 10; for "
        "your own task enough for 300 updates, but at least 10 and at most 50")  # fmt: skip
    add("--patience", type=count, metavar="N", help="end a run after N epochs without a better "
        "score; does not change the learning rate schedule")  # fmt: skip
    add("--metric", choices=METRICS, metavar="NAME",
        help="pick checkpoints by another metric: " + ", ".join(METRICS))  # fmt: skip
    add("--balance", action="store_true", help="weigh rare classes more in the loss")
    add("--batch-size", type=count, default=32, metavar="N", help="default %(default)s")
    add("--dropout", type=fraction, default=0.1, metavar="P", help="default %(default)s")
    add("--no-pretraining", action="store_true",
        help="for comparison: start from random weights, in the checkpoint's size")  # fmt: skip
    add("--pooling", choices=("mean", "cls"), default="cls", help="input of the head: the "
        "features of <s> (cls), or their mean over all tokens; default %(default)s")  # fmt: skip
    add("--train-flags", type=arguments, default=(), metavar="FLAGS", help="further flags of "
        "fairseq-train, as one argument: --train-flags='--bf16 --wandb-project P'")  # fmt: skip
    add_user_dir_flag(parser)
    add_device_flags(parser)
    add("--keep-checkpoints", action="store_true",
        help="keep the best checkpoint of each run, not only the best run's")  # fmt: skip
    add("--dry-run", action="store_true", help="print the commands without running them")
    return parser


def check_task(args: argparse.Namespace) -> list[tuple[Any, list[float] | None]]:
    """The data of the task, or of each fold, with --metric applied, and its class weights."""
    from tupe_fairseq.finetune.settings import balanced_weights
    from tupe_fairseq.labelled.task_folder import TaskData
    from tupe_fairseq.results.scores import with_metric

    checked = []
    for data in TaskData.load_folds(args.data):
        task = with_metric(data.task, args.metric)
        if args.pooling != "cls" and not task.kind.pools:
            raise ValueError(f"--pooling {args.pooling} is not for {task.kind.name} tasks; drop it")
        data = replace(data, task=task)
        checked.append((data, balanced_weights(data) if args.balance else None))
    return checked


def main(argv: list[str] | None = None) -> None:
    parser = get_parser()
    args = parser.parse_args(argv)
    need("fairseq", "matplotlib", "scipy", "seqeval", "sklearn", "tqdm")
    devices = training_devices(parser, args)

    from tupe_fairseq.checkpoint.model import Model
    from tupe_fairseq.finetune.fine_tuning import FineTuning
    from tupe_fairseq.finetune.protocol import TaskStudy, check_data
    from tupe_fairseq.finetune.settings import Experiment, Settings, default_epochs
    from tupe_fairseq.runs.grid import default_threads, exit_if_failed
    from tupe_fairseq.runs.process import BEST

    folds = check_task(args)
    data, model = folds[0][0], Model.read(args.checkpoint)
    task, rows, has_folds = data.task, data.rows, len(folds) > 1
    check_data(data, model)
    checkpoint, model_flags = os.path.abspath(args.checkpoint), model.flags()
    max_positions = model.max_positions
    del model  # else its weights take memory during the trainings
    epochs = args.epochs or default_epochs(data, max_positions, args.batch_size)
    if not args.epochs and epochs != task.epochs:
        logger.info("%d epochs, because there are only %d rows", epochs, rows["train"])
    names = "batch_size fp16 dropout metric patience train_flags user_dir".split()
    settings = Settings(
        output_dir=os.path.abspath(args.output_dir),
        epochs=epochs,
        pretrained=not args.no_pretraining,
        pooling=None if args.pooling == "cls" else args.pooling,
        cpu=args.cpu if args.dry_run else devices == [""],
        threads=default_threads(args.parallel or len(devices)),
        **{name: getattr(args, name) for name in names},
    )
    experiments = [
        Experiment(
            replace(settings, class_weights=class_weights), one, checkpoint, model_flags,
            max_positions, os.path.basename(one.folder) if has_folds else "",
        )
        for one, class_weights in folds
    ]  # fmt: skip
    is_small = not task.benchmark and rows["train"] < FEW_ROWS
    grid = FOLD_GRID if has_folds else SMALL_GRID if is_small else PAPER_GRID
    lrs, seeds = args.lrs or grid[0], args.seeds or grid[1]
    if rows["valid"] < FEW_VALID_ROWS:
        logger.warning(
            "WARNING: %d rows for validation are too few to tell which epoch or run is better",
            rows["valid"],
        )
    runs = [FineTuning(lr, seed, one) for one in experiments for lr in lrs for seed in seeds]
    for run in (runs[0], runs[-1]):
        run.check()
    study = TaskStudy(experiments, runs, args.keep_checkpoints)
    if args.dry_run:
        print(study.scripts())
        return
    table = study.run(devices, args.parallel)
    if table:
        print(table)
        logger.info("all tasks: %s", os.path.join(settings.output_dir, "results.md"))
    model = os.path.join(os.path.relpath(study.folder), "best", BEST)
    if os.path.exists(model):
        ending = "conll" if task.kind.of_words else "csv"
        command = ["tupe-predict", model, f"new.{ending}", "--output-file", f"predicted.{ending}"]
        logger.info("next: %s", shlex.join(command))
    elif has_folds and table:
        logger.info("for a model trained on all rows, prepare the task again without --folds")
    exit_if_failed(study.failed)
