"""One run: train, predict the development sets, score."""

import logging
import os
import threading
from typing import Any

import numpy as np

from tupe_fairseq.finetune.command import Run
from tupe_fairseq.finetune.scoring import Predicted, measure, read_predictions, write_predictions
from tupe_fairseq.inference.predict import predict_with_probabilities
from tupe_fairseq.runs.process import (
    BEST,
    LAST,
    Diverged,
    quiet,
    record_of,
    records,
    remove_checkpoints,
    updates_of,
)

logger = logging.getLogger("tupe-finetune")
# one model at a time in this process: loggers are set, and a GPU has other work
_predicting = threading.Lock()


def finetune(run: Run, env: dict[str, str], on_updates, lock: int | None) -> dict[str, Any]:
    """Train, or resume an interrupted training; the content of result.json, which is written.

    Args:
        env: environment variables of the training.
        on_updates: called with the updates so far, after each epoch.
        lock: descriptor of a lock that the training process holds.
    """
    if run.experiment.settings.patience and os.path.exists(run.path(LAST)):
        logger.info("%s restarts: fairseq does not save the count of --patience", run)
        remove_checkpoints(run.folder)
    result: dict[str, Any] = {
        "run": run.name,
        "lr": run.lr_text,
        "seed": run.seed,
        "pretrained": run.experiment.settings.pretrained,
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
        run.train(on_line, lock=lock, env=env)
        result["updates"] = _updates(run)
        result["metrics"] = _score(run)
    except Diverged as error:
        logger.warning("%s diverged: %s", run, error)
        result["diverged"] = str(error)
    result["epochs"] = len(read_curve(run))
    run.save(result)
    return result


def _updates(run: Run) -> int:
    updates, planned = updates_of(run.path(LAST)), run.experiment.updates
    # in fp16, updates whose gradients overflow are skipped
    may_be_fewer = run.experiment.settings.fp16 or run.experiment.settings.patience
    if updates != planned and not (updates < planned and may_be_fewer):
        raise ValueError(
            f"{run} made {updates} updates, but its learning rate was planned for {planned}"
        )
    return updates


def _score(run: Run) -> dict[str, dict[str, float]]:
    if not os.path.exists(run.path(BEST)):
        raise Diverged("no validation had a finite score")
    data = run.experiment.data
    return {x: measure(data.task, _predict(run, x)) for x in data.splits("valid")}


def predictions(run: Run, split: str) -> Predicted:
    """The predictions in a run's predictions-SPLIT.tsv, which is written if it is not there."""
    path = run.path(f"predictions-{split}.tsv")
    saved = read_predictions(path, run.experiment.data, split)
    return _predict(run, split) if saved is None else saved


def _predict(run: Run, split: str) -> Predicted:
    own, data = run.experiment, run.experiment.data
    with _predicting, quiet("fairseq", "tupe_fairseq"):
        best = run.path(BEST)
        values, probabilities = predict_with_probabilities(
            best, data.folder, split, own.settings.batch_size, cpu=own.cpu
        )
    if data.task.is_regression:
        values = data.unscaled(values)
        if not np.isfinite(values).all():
            raise Diverged("predictions are not finite")
    predicted = Predicted(values, data.targets(split) if data.has_labels(split) else None)
    path = run.path(f"predictions-{split}.tsv")
    write_predictions(path, data.task, predicted, data.index(split), probabilities)
    return predicted


def read_curve(run: Run) -> list[dict[str, Any]]:
    """Of each epoch in train.log: ``epoch``, ``score`` (times 100), and ``loss`` in training.

    Of an epoch that was trained twice, because the run was interrupted, the later one counts.
    """
    metric = f"valid_{run.experiment.data.task.selection}"
    points: dict[int, dict[str, Any]] = {}
    for tag, record in records(run.path("train.log")):
        if tag == "valid" and metric in record:
            epoch = int(record["epoch"])
            points = {number: points[number] for number in points if number < epoch}
            points[epoch] = {"epoch": epoch, "score": float(record[metric]), "loss": float("nan")}
        elif tag == "train" and int(record["epoch"]) in points:  # it comes after
            points[int(record["epoch"])]["loss"] = float(record["train_loss"])
    return list(points.values())
