"""tupe-finetune: the paper's fine-tuning protocol for a task."""

import logging
import os
import shlex
from dataclasses import dataclass, replace
from typing import Any

from tupe_fairseq.checkpoint.options import CheckpointOptions, checkpoint_or_folder
from tupe_fairseq.cli.extras import need
from tupe_fairseq.cli.study_options import StudyOptions
from tupe_fairseq.data.metrics import METRICS
from tupe_fairseq.files import file_sha256
from tupe_fairseq.flags import (
    at_least,
    comma_list,
    count,
    folder_with,
    fraction,
    no_colon,
    one_of,
    option,
    positive,
    writable,
)
from tupe_fairseq.options import POOLINGS

#: learning rates and seeds: the paper's, for your own task with fewer rows, for each fold
PAPER_GRID = (2e-5, 3e-5, 4e-5, 5e-5), (1, 2, 3, 4, 5)
SMALL_GRID, FEW_ROWS = ((2e-5, 5e-5), (1, 2)), 1000
FOLD_GRID = (3e-5,), (1,)
#: with fewer rows for validation, a single row changes the score by more than 2%
FEW_VALID_ROWS = 50

logger = logging.getLogger("tupe-finetune")


@dataclass(kw_only=True)
class Options(StudyOptions, CheckpointOptions):
    """Fine-tune a checkpoint on a GLUE task or your own with several learning rates and seeds, and
    write the scores, figures and the best model to RUNS/TASK. Each run is a fairseq-train command
    (command.sh in its folder); finished runs are not repeated.

    example: tupe-finetune checkpoints --data glue/CoLA --output-dir runs
    """

    checkpoint: str = option(
        "a pre-trained checkpoint, or a folder of tupe-export, which is converted first",
        checkpoint_or_folder, positional=True,
    )  # fmt: skip
    data: str = option(
        "folder made by tupe-prepare-glue or tupe-prepare-task",
        no_colon(folder_with("report.json")), metavar="OUT/TASK",
    )  # fmt: skip
    output_dir: str = option("folder for all tasks", no_colon(writable), metavar="RUNS")
    lrs: list[float] | None = option(
        "peak learning rates",
        comma_list(positive), None,
        unset="2e-5,3e-5,4e-5,5e-5 as in the paper, 2e-5,5e-5 for your own task with fewer than "
        f"{FEW_ROWS} rows, 3e-5 for folds",
    )  # fmt: skip
    seeds: list[int] | None = option(
        "seeds of the new head, the order of batches and dropout",
        comma_list(at_least(0)), None,
        unset="1,2,3,4,5; 1,2 for your own task with fewer rows; 1 for folds",
    )  # fmt: skip
    epochs: int | None = option(
        "passes over the training set",
        count, None,
        unset="5 for MNLI, QNLI and QQP, else 10; for your own task enough for 300 updates, but at "
        "least 10 and at most 50",
    )  # fmt: skip
    patience: int | None = option(
        "end a run after N epochs without a better score; does not change the learning rate "
        "schedule",
        count, None,
    )  # fmt: skip
    metric: str | None = option(
        f"pick checkpoints by another metric: {', '.join(METRICS)}",
        one_of(*METRICS), None, metavar="NAME",
    )  # fmt: skip
    balance: bool = option("weigh rare classes more in the loss", bool, False)
    batch_size: int = option("rows of a batch", count, 32)
    dropout: float = option("of layers, attention and head", fraction, 0.1)
    no_pretraining: bool = option(
        "for comparison: start from random weights, in the checkpoint's size", bool, False
    )
    pooling: str = option(
        "input of the head: the features of <s> (cls), or their mean over all tokens",
        one_of(*POOLINGS), "cls",
    )  # fmt: skip


def check_task(options: Options) -> list[tuple[Any, list[float] | None]]:
    """The data of the task, or of each fold, with --metric applied, and its class weights."""
    from tupe_fairseq.finetune.settings import balanced_weights
    from tupe_fairseq.labelled.task_folder import TaskData
    from tupe_fairseq.results.scores import with_metric

    checked = []
    for data in TaskData.load_folds(options.data):
        task = with_metric(data.task, options.metric)
        if options.pooling != "cls" and task.kind.of_words:
            raise ValueError(
                f"--pooling {options.pooling} is not for {task.kind.name} tasks; drop it"
            )
        data = replace(data, task=task)
        checked.append((data, balanced_weights(data) if options.balance else None))
    return checked


def as_checkpoint(path: str, runs: str) -> str:
    """The path of the checkpoint; that of a folder for transformers is in RUNS/converted."""
    if not os.path.isdir(path):
        return os.path.abspath(path)
    from tupe_fairseq.export import convert_checkpoint

    name = os.path.basename(os.path.abspath(path))
    name += f"-{file_sha256(os.path.join(path, 'model.safetensors'))[:12]}"
    folder = os.path.join(os.path.abspath(runs), "converted", name)
    model = os.path.join(folder, "model.pt")
    if not os.path.exists(model):
        convert_checkpoint(path, folder, overwrite=True)
    return model


def main(options: Options) -> None:
    need("fairseq", "matplotlib", "scipy", "seqeval", "sklearn", "tqdm")
    devices = options.devices()

    from tupe_fairseq.checkpoint.model import Model
    from tupe_fairseq.finetune.fine_tuning import FineTuning
    from tupe_fairseq.finetune.protocol import TaskStudy, check_data
    from tupe_fairseq.finetune.settings import Experiment, Settings, default_epochs
    from tupe_fairseq.runs.grid import exit_if_failed
    from tupe_fairseq.runs.process import BEST

    folds = check_task(options)
    checkpoint = as_checkpoint(options.checkpoint, options.output_dir)
    data, model = folds[0][0], Model.read(checkpoint)
    task, rows, has_folds = data.task, data.rows, len(folds) > 1
    check_data(data, model)
    model_flags, max_positions = model.flags(), model.max_positions
    del model  # else its weights take memory during the trainings
    epochs = options.epochs or default_epochs(data, max_positions, options.batch_size)
    if not options.epochs and epochs != task.epochs:
        logger.info("%d epochs, because there are only %d rows", epochs, rows["train"])
    settings = options.study_settings(
        Settings,
        devices,
        epochs=epochs,
        pretrained=not options.no_pretraining,
        pooling=None if options.pooling == "cls" else options.pooling,
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
    lrs, seeds = options.lrs or grid[0], options.seeds or grid[1]
    if rows["valid"] < FEW_VALID_ROWS:
        logger.warning(
            "WARNING: %d rows for validation are too few to tell which epoch or run is better",
            rows["valid"],
        )
    runs = [FineTuning(lr, seed, one) for one in experiments for lr in lrs for seed in seeds]
    for run in (runs[0], runs[-1]):
        run.check()
    study = TaskStudy(experiments, runs, options.keep_checkpoints)
    if options.dry_run:
        print(study.scripts())
        return
    table = study.run(devices, options.parallel)
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
