"""One run of the grid: train, predict the development set, score."""

import logging
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from tupe_fairseq.checkpoint.checkpoint import CheckpointError, NotFinite, read
from tupe_fairseq.fairseq_runs.save_dir import BEST, LAST, updates_of
from tupe_fairseq.fairseq_runs.train import Diverged, quiet, record_of, train
from tupe_fairseq.files.atomic import atomic_write, write_json
from tupe_fairseq.finetune.answers import measured
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun
from tupe_fairseq.finetune.label_files import Answers, unscaled
from tupe_fairseq.finetune.learning_curve import read_curve
from tupe_fairseq.finetune.prediction_file import Predicted, write_predictions
from tupe_fairseq.finetune.selection import metric_names
from tupe_fairseq.finetune.unfinished_run import keep_what_counts
from tupe_fairseq.inference.predict import predict

logger = logging.getLogger("tupe-finetune")


def finetune(
    experiment: Experiment,
    run: FineTuningRun,
    on_score: Callable[[int, float], None],
    lock: int | None,
) -> dict[str, Any]:
    """Train, or resume an interrupted training, and write predictions and result.json.

    Args:
        experiment (Experiment): what to train on what.
        run (FineTuningRun): its learning rate and seed.
        on_score (callable): called with epoch and score after each validation.
        lock (int or None): a lock's descriptor, for the training process to hold.
    Returns:
        dict: the content of result.json.
    Raises:
        ValueError: if fairseq-train fails, makes an unexpected number of updates, or records a
            score that its predictions do not have.
    """
    os.makedirs(experiment.path(run), exist_ok=True)
    with atomic_write(experiment.path(run, "command.sh")) as file:
        file.write(experiment.script(run))
    keep_what_counts(experiment, run)
    result: dict[str, Any] = {
        "run": run.name,
        "lr": run.lr_text,
        "seed": run.seed,
        "pretrained": experiment.settings.pretrained,
        "updates": None,
        "epochs": 0,
        "diverged": None,
        "metrics": None,
    }
    try:
        _train(experiment, run, on_score, lock)
        result["updates"] = _updates(experiment, run)
        result["metrics"] = _score(experiment, run)
    except Diverged as error:
        logger.warning("%s diverged: %s", run.name, error)
        result["diverged"] = str(error)
    curve = read_curve(experiment.path(run, "train.log"), experiment.data.task.selection)
    result["epochs"] = len(curve)
    write_json(experiment.path(run, "result.json"), result)
    return result


def _train(experiment, run, on_score, lock) -> None:
    metric = f"valid_{experiment.data.task.selection}"

    def follow(line: str) -> None:
        record = record_of(line, "valid")
        if record is not None and metric in record:
            on_score(int(record["epoch"]), float(record[metric]))

    train(experiment.command(run), experiment.path(run, "train.log"), follow, lock=lock)


def _updates(experiment: Experiment, run: FineTuningRun) -> int:
    updates = updates_of(experiment.path(run, LAST))
    planned = experiment.updates
    # in fp16, updates whose gradients overflow are skipped
    may_be_fewer = experiment.settings.fp16 or experiment.settings.patience is not None
    if updates > planned or (updates < planned and not may_be_fewer):
        raise ValueError(
            f"{run.name} made {updates} updates, but its learning rate was planned for {planned}"
        )
    return updates


def _score(experiment: Experiment, run: FineTuningRun) -> dict[str, dict[str, float]]:
    task = experiment.data.task
    best = experiment.path(run, BEST)
    if not os.path.exists(best):
        raise Diverged("no validation had a finite score")
    metrics = {}
    for split in experiment.data.splits("valid"):
        try:
            predictions = predictions_of(experiment, best, split)
        except NotFinite as error:
            raise Diverged(str(error)) from error
        targets = experiment.data.targets(split)
        if task.is_regression and not np.isfinite(predictions).all():
            raise Diverged("predictions are not finite")
        path = experiment.path(run, f"predictions-{split}.tsv")
        write_predictions(path, experiment.data, Predicted(predictions, targets))
        metrics[split] = measured(task, metric_names(task), predictions, targets)
    _check_recorded(experiment, run, metrics["valid"][task.selection])
    return metrics


def _check_recorded(experiment: Experiment, run: FineTuningRun, found: float) -> None:
    """Check that fairseq picked the checkpoint by the score that its predictions have."""
    metric = experiment.data.task.selection
    path = experiment.path(run, BEST)
    best = read(path).best
    if best is None:
        raise CheckpointError(f"{path} does not say how good it is")
    recorded = best / 100
    # half precision can move undecided rows to the other class; otherwise one at most
    tolerance = (0.03 if experiment.settings.fp16 else 1e-3) + 1 / experiment.data.rows["valid"]
    if not math.isclose(found, recorded, rel_tol=0, abs_tol=tolerance):
        raise ValueError(
            f"{run.name}: the best checkpoint's predictions have {metric} {found:.4f}, "
            f"but fairseq recorded {recorded:.4f}"
        )


def predictions_of(experiment: Experiment, checkpoint: str, split: str) -> Answers:
    """The answer for each row of a split; scores on the task's own scale.

    Raises:
        NotFinite: if the model is not.
        ValueError: if there are not as many as rows, or the checkpoint is refused.
    """
    try:
        with quiet("fairseq", "tupe_fairseq"):
            found = predict(
                checkpoint,
                experiment.data.folder,
                split,
                experiment.settings.batch_size,
                cpu=experiment.settings.gpus == 0,
            ).values
    except NotFinite:
        raise
    except CheckpointError as error:
        folder = os.path.dirname(checkpoint)
        raise ValueError(f"{error}; delete {folder}, and the run is made again") from error
    if len(found) != experiment.data.rows[split]:
        raise ValueError(
            f"{len(found)} predictions for {experiment.data.rows[split]} rows of {split}"
        )
    if experiment.data.task.is_regression:
        return unscaled(experiment.data.task, found)
    return found
