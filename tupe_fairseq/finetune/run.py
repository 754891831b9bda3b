"""One run: train, predict the development sets, score."""

import logging
import os
import threading
from typing import Any

import numpy as np

from tupe_fairseq.fairseq_runs.train import (
    BEST,
    LAST,
    Diverged,
    quiet,
    record_of,
    records,
    remove_checkpoints,
    train,
    updates_of,
)
from tupe_fairseq.files import atomic_write, write_json
from tupe_fairseq.finetune.command import Experiment, Run
from tupe_fairseq.finetune.scoring import Predicted, measure, read_predictions, write_predictions
from tupe_fairseq.inference.predict import predict_with_probabilities

logger = logging.getLogger("tupe-finetune")
# one model at a time in this process: loggers are set, and a GPU has other work
_predicting = threading.Lock()


def finetune(
    experiment: Experiment, run: Run, env: dict[str, str], on_updates, lock: int | None
) -> dict[str, Any]:
    """Train, or resume an interrupted training; the content of result.json, which is written.

    Args:
        env: environment variables of the training.
        on_updates: called with the updates so far, after each epoch.
        lock: descriptor of a lock that the training process holds.
    """
    os.makedirs(experiment.path(run), exist_ok=True)
    with atomic_write(experiment.path(run, "command.sh")) as file:
        file.write(experiment.script(run))
    if experiment.settings.patience and os.path.exists(experiment.path(run, LAST)):
        logger.info("%s restarts: fairseq does not save the count of --patience", run.name)
        remove_checkpoints(experiment.path(run))
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

    def on_line(line: str) -> None:
        record = record_of(line, "valid")
        if record is not None:
            on_updates(int(record["valid_num_updates"]))

    try:
        log_path = experiment.path(run, "train.log")
        train(experiment.command(run), log_path, on_line, lock=lock, env=env)
        result["updates"] = _updates(experiment, run)
        result["metrics"] = _score(experiment, run)
    except Diverged as error:
        logger.warning("%s diverged: %s", run.name, error)
        result["diverged"] = str(error)
    result["epochs"] = len(read_curve(experiment, run))
    write_json(experiment.path(run, "result.json"), result)
    return result


def _updates(experiment: Experiment, run: Run) -> int:
    updates, planned = updates_of(experiment.path(run, LAST)), experiment.updates
    # in fp16, updates whose gradients overflow are skipped
    may_be_fewer = experiment.settings.fp16 or experiment.settings.patience
    if updates != planned and not (updates < planned and may_be_fewer):
        raise ValueError(
            f"{run.name} made {updates} updates, but its learning rate was planned for {planned}"
        )
    return updates


def _score(experiment: Experiment, run: Run) -> dict[str, dict[str, float]]:
    if not os.path.exists(experiment.path(run, BEST)):
        raise Diverged("no validation had a finite score")
    task, splits = experiment.data.task, experiment.data.splits("valid")
    return {split: measure(task, _predict(experiment, run, split)) for split in splits}


def predictions(experiment: Experiment, run: Run, split: str) -> Predicted:
    """The predictions in a run's predictions-SPLIT.tsv, which is written if it is not there."""
    path = experiment.path(run, f"predictions-{split}.tsv")
    saved = read_predictions(path, experiment.data, split)
    return _predict(experiment, run, split) if saved is None else saved


def _predict(experiment: Experiment, run: Run, split: str) -> Predicted:
    data, batch_size = experiment.data, experiment.settings.batch_size
    with _predicting, quiet("fairseq", "tupe_fairseq"):
        best = experiment.path(run, BEST)
        values, probabilities = predict_with_probabilities(
            best, data.folder, split, batch_size, cpu=experiment.cpu
        )
    if data.task.is_regression:
        values = data.unscaled(values)
        if not np.isfinite(values).all():
            raise Diverged("predictions are not finite")
    predicted = Predicted(values, data.targets(split) if data.has_labels(split) else None)
    path = experiment.path(run, f"predictions-{split}.tsv")
    write_predictions(path, data.task, predicted, data.index(split), probabilities)
    return predicted


def read_curve(experiment: Experiment, run: Run) -> list[dict[str, Any]]:
    """Of each epoch in train.log: ``epoch``, ``score`` (times 100), and ``loss`` in training.

    Of an epoch that was trained twice, because the run was interrupted, the later one counts.
    """
    metric = f"valid_{experiment.data.task.selection}"
    points: dict[int, dict[str, Any]] = {}
    for tag, record in records(experiment.path(run, "train.log")):
        if tag == "valid" and metric in record:
            epoch = int(record["epoch"])
            points = {number: points[number] for number in points if number < epoch}
            points[epoch] = {"epoch": epoch, "score": float(record[metric]), "loss": float("nan")}
        elif tag == "train" and int(record["epoch"]) in points:  # it comes after
            points[int(record["epoch"])]["loss"] = float(record["train_loss"])
    return list(points.values())
