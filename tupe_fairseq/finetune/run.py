"""One run: train, predict the development sets, score."""

import itertools
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from tupe_fairseq.checkpoint.checkpoint import read
from tupe_fairseq.checkpoint.model import Model
from tupe_fairseq.data.dictionary import DICTIONARY
from tupe_fairseq.finetune.command import Run
from tupe_fairseq.finetune.scoring import (
    Predicted,
    measure,
    read_predictions,
    with_intervals,
    write_predictions,
)
from tupe_fairseq.inference.texts import logits_of_tokens
from tupe_fairseq.provenance import made_by
from tupe_fairseq.runs.grid import Slot, torch_device
from tupe_fairseq.runs.process import BEST, LAST, Diverged, records, remove_checkpoints

logger = logging.getLogger("tupe-finetune")
# one model at a time predicts in this process, because other runs need the cores and GPUs
_predicting = threading.Lock()
_CHUNK = 4096  # rows


def finetune(run: Run, slot: Slot) -> dict[str, Any]:
    """Train, or resume an interrupted training, and score; writes and returns result.json."""
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

    try:
        run.train(slot)
        *_, result["updates"] = read(run.path(LAST))
        result |= _score(run, slot.device)
    except Diverged as error:
        logger.warning("%s diverged: %s", run, error)
        result["diverged"] = str(error)
    result |= {"epochs": len(read_curve(run)), **made_by(torch_device(slot.device))}
    run.save(result)
    return result


def _score(run: Run, device: str) -> dict[str, Any]:
    """The metrics of the development sets, and the interval of the one that picks checkpoints."""
    if not os.path.exists(run.path(BEST)):
        raise Diverged("no validation had a finite score")
    data, scores, found = run.experiment.data, {}, {}
    for split in run.experiment.scored_splits():
        _predict(run, split, device)
    for split in data.splits("valid"):
        predicted = predictions(run, split)
        if not data.task.labels and not np.isfinite(predicted.predictions).all():
            raise Diverged("predictions are not finite")
        scores[split] = measure(data.task, predicted)
        found[split] = predicted
    interval = with_intervals(data.task, found["valid"])[data.task.selection]["interval"]
    return {"metrics": scores, "interval": interval}


def predictions(run: Run, split: str, device: str = "") -> Predicted:
    """Read a run's predictions-SPLIT.tsv; if it does not exist, predict the split first."""
    path = run.path(f"predictions-{split}.tsv")
    if not os.path.exists(path):
        _predict(run, split, device)
    return read_predictions(path, run.experiment.data, split)


def _predict(run: Run, split: str, device: str) -> None:
    """Write the predictions that tupe-predict would make; ``device`` as in :func:`run_grid`."""
    data = run.experiment.data

    def rows() -> Iterator[dict[str, Any]]:
        model = Model.read(run.path(BEST), os.path.join(data.folder, "input0", DICTIONARY))
        own_device = torch_device(device)
        encoder, head = model.encoder.to(own_device), model.head.to(own_device)
        texts = data.texts(split)
        while chunk := list(itertools.islice(texts, _CHUNK)):
            for logits in logits_of_tokens(chunk, data.task, encoder, head):
                yield data.task.kind.predict(logits, data.task)

    spell, is_known = data.task.kind.spell, data.has_labels(split)
    targets = spell(data.targets(split), data.task) if is_known else None
    with _predicting:
        path = run.path(f"predictions-{split}.tsv")
        write_predictions(path, rows(), targets, data.index(split))
        torch.cuda.empty_cache()  # leave the GPU's memory to the next training


def read_curve(run: Run) -> list[dict[str, Any]]:
    """For each epoch in train.log: ``epoch``, ``score`` (times 100) and training ``loss``.

    If an interrupted run trained an epoch twice, the later one counts.
    """
    metric = f"valid_{run.experiment.data.task.selection}"
    points: dict[int, dict[str, Any]] = {}
    for tag, record in records(run.path("train.log")):
        if tag == "valid" and metric in record:
            epoch = int(record["epoch"])
            points = {number: points[number] for number in points if number < epoch}
            points[epoch] = {"epoch": epoch, "score": float(record[metric]), "loss": float("nan")}
        elif tag == "train" and int(record["epoch"]) in points:  # logged after "valid"
            points[int(record["epoch"])]["loss"] = float(record["train_loss"])
    return list(points.values())
