"""tupe-finetune: the paper's fine-tuning protocol for a task."""

import logging
import os
import shlex
from dataclasses import replace
from typing import Any

from tupe_fairseq.cli.extras import need
from tupe_fairseq.files import file_sha256
from tupe_fairseq.finetune.options import FEW_ROWS, FOLD_GRID, PAPER_GRID, SMALL_GRID
from tupe_fairseq.finetune.options import FinetuneOptions as Options

#: with fewer rows for validation, a single row changes the score by more than 2%
FEW_VALID_ROWS = 50

logger = logging.getLogger("tupe-finetune")


def check_task(options: Options) -> list[tuple[Any, list[float] | None]]:
    """The data of the task, or of each fold, with --metric applied, and its class weights."""
    from tupe_fairseq.finetune.experiment import balanced_weights
    from tupe_fairseq.labelled.task_folder import TaskData
    from tupe_fairseq.results.scores import with_metric

    checked = []
    for data in TaskData.load_folds(options.data):
        task = with_metric(data.task, options.metric)
        if options.pooling and task.kind.of_words:
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

    from tupe_fairseq.checkpoint.model import Model
    from tupe_fairseq.finetune.experiment import Experiment, default_epochs
    from tupe_fairseq.finetune.fine_tuning import FineTuning
    from tupe_fairseq.finetune.protocol import TaskStudy, check_data
    from tupe_fairseq.runs.process import BEST

    folds = check_task(options)
    checkpoint = as_checkpoint(options.checkpoint, options.output_dir)
    data, model = folds[0][0], Model.read(checkpoint)
    task, rows, has_folds = data.task, data.rows, len(folds) > 1
    check_data(data, model)
    model_flags, max_positions = model.flags(), model.max_positions
    del model  # else its weights take memory during the trainings
    if options.epochs is None:
        options.epochs = default_epochs(data, max_positions, options.batch_size)
        if options.epochs != task.epochs:
            logger.info("%d epochs, because there are only %d rows", options.epochs, rows["train"])
    experiments = [
        Experiment(
            options, one, checkpoint, model_flags, max_positions,
            os.path.basename(one.folder) if has_folds else "", class_weights,
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
    if options.train_flags:
        for run in (runs[0], runs[-1]):
            run.check_train_flags()
    study = TaskStudy(runs)
    if options.dry_run:
        print(study.scripts())
        return
    table = study.complete()
    if table:
        print(table)
        logger.info("all tasks: %s", os.path.join(options.output_dir, "results.md"))
    model = os.path.join(os.path.relpath(study.folder), "best", BEST)
    if os.path.exists(model):
        ending = "conll" if task.kind.of_words else "csv"
        command = ["tupe-predict", model, f"new.{ending}", "--output-file", f"predicted.{ending}"]
        logger.info("next: %s", shlex.join(command))
    elif has_folds and table:
        logger.info("for a model trained on all rows, prepare the task again without --folds")
    study.exit_if_failed()
