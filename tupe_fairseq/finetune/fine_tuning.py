"""A fine-tuning: its fairseq-train command, its score and its predictions."""

import glob
import itertools
import logging
import math
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from tupe_fairseq.checkpoint.checkpoint import read
from tupe_fairseq.checkpoint.model import Model
from tupe_fairseq.data.dictionary import DICTIONARY
from tupe_fairseq.finetune.experiment import Experiment
from tupe_fairseq.finetune.options import FinetuneOptions
from tupe_fairseq.inference.texts import logits_of_tokens
from tupe_fairseq.kinds import switches
from tupe_fairseq.options import flag
from tupe_fairseq.recipe import FINE_TUNING
from tupe_fairseq.results.scores import (
    Predicted,
    measure,
    read_predictions,
    with_intervals,
    write_predictions,
)
from tupe_fairseq.runs.process import BEST, LAST, Diverged, records, remove_checkpoints
from tupe_fairseq.runs.run import Run, Slot

logger = logging.getLogger("tupe-finetune")
# the paper's share of the updates for the warm-up
_WARMUP = 0.06
# one model at a time predicts in this process, because other runs need the cores and GPUs
_predicting = threading.Lock()
_CHUNK = 4096  # rows


@dataclass(frozen=True, order=True)
class FineTuning(Run):
    """A peak learning rate, and a seed for the new head, the order of batches and dropout."""

    lr: float
    seed: int
    experiment: Experiment = field(repr=False)

    @property
    def options(self) -> FinetuneOptions:
        return self.experiment.options

    @property
    def updates(self) -> int:
        return self.experiment.updates

    @property
    def lr_text(self) -> str:
        """The learning rate as exact text: 2e-5, 0.01."""
        if self.lr >= 1e-3:
            return repr(self.lr)
        return np.format_float_scientific(self.lr, trim="-", exp_digits=1)

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return f"lr{self.lr_text}-seed{self.seed}"

    def __str__(self) -> str:
        return f"{self.experiment.name}, {self.name}"

    @property
    def folder(self) -> str:
        return os.path.join(self.experiment.folder, self.name)

    def changeable_flags(self) -> list[object]:
        own, total = self.experiment, self.experiment.updates
        return [
            *(own.data.folder, *FINE_TUNING, "--log-interval", 100),
            *("--warmup-updates", math.floor(_WARMUP * total + 0.5)),
            *super().changeable_flags(),
        ]

    def fixed_flags(self) -> list[object]:
        own, options = self.experiment, self.options
        args = [
            *(*own.task_flags(), *own.model_flags),
            *("--lr", self.lr_text, "--lr-scheduler", "polynomial_decay"),
            *("--total-num-update", own.updates, "--max-epoch", options.epochs),
            *("--batch-size", options.batch_size, "--update-freq", 1),
            *("--best-checkpoint-metric", own.data.task.selection),
            *("--maximize-best-checkpoint-metric", "--valid-subset"),
            ",".join(own.data.splits("valid")),
            *super().fixed_flags(),
        ]
        for name in ("--dropout", "--attention-dropout", "--pooler-dropout"):
            args += [name, options.dropout]
        if not options.no_pretraining:
            # not --restore-file: that would be loaded again when an interrupted run resumes
            args += ["--finetune-from-model", own.checkpoint]
        args += ["--pooling", options.pooling] if options.pooling else []
        args += ["--patience", options.patience] if options.patience else []
        if options.fp16:
            args += ["--fp16-init-scale", 4, "--threshold-loss-scale", 1]
            args += ["--fp16-scale-window", 128]
        return args

    def unset_flags(self) -> list[str]:
        # these change the number of updates, the head, or the kind of task
        others = "--max-update", "--max-tokens", "--pooling", "--classification-head-name"
        return [*super().unset_flags(), *others, *map(flag, switches())]

    def train(self, slot: Slot) -> None:
        if self.options.patience and os.path.exists(self.path(LAST)):
            logger.info("%s restarts: fairseq does not save the count of --patience", self)
            remove_checkpoints(self.folder)
        super().train(slot)

    def about(self) -> dict[str, Any]:
        return {
            "run": self.name,
            "lr": self.lr_text,
            "seed": self.seed,
            "pretrained": not self.options.no_pretraining,
            "updates": None,
            "epochs": len(read_curve(self)),
            "metrics": None,
        }

    def score(self, device: str) -> dict[str, Any]:
        """The metrics of the development sets, and the interval of the one that picks epochs."""
        *_, updates = read(self.path(LAST))
        if not os.path.exists(self.path(BEST)):
            raise Diverged("no validation had a finite score")
        for path in glob.glob(os.path.join(glob.escape(self.folder), "predictions-*.tsv")):
            os.remove(path)  # of an earlier training
        data, scores = self.experiment.data, {}
        valid = data.splits("valid")
        # GLUE's server has the labels of its test sets
        tests = [] if data.task.benchmark else filter(data.has_labels, data.splits("test"))
        found = {split: predictions(self, split, device) for split in [*valid, *tests]}
        for split in valid:
            if not data.task.labels and not np.isfinite(found[split].predictions).all():
                raise Diverged("predictions are not finite")
            scores[split] = measure(data.task, found[split])
        interval = with_intervals(data.task, found["valid"])[data.task.selection]["interval"]
        return {"updates": updates, "metrics": scores, "interval": interval}


def predictions(run: FineTuning, split: str, device: str = "cpu") -> Predicted:
    """A run's predictions-SPLIT.tsv. If it does not exist, it is made, as tupe-predict would."""
    data, path = run.experiment.data, run.path(f"predictions-{split}.tsv")
    if not os.path.exists(path):
        spell, is_known = data.task.kind.spell, data.has_labels(split)
        targets = spell(data.targets(split), data.task) if is_known else None
        with _predicting:
            write_predictions(path, _predict(run, split, device), targets, data.index(split))
            torch.cuda.empty_cache()  # leave the GPU's memory to the next training
    return read_predictions(path, data, split)


def _predict(run: FineTuning, split: str, device: str) -> Iterator[dict[str, Any]]:
    data = run.experiment.data
    model = Model.read(run.path(BEST), os.path.join(data.folder, "input0", DICTIONARY))
    encoder, head = model.encoder.to(device), model.head.to(device)
    texts = data.texts(split)
    while chunk := list(itertools.islice(texts, _CHUNK)):
        for logits in logits_of_tokens(chunk, data.task, encoder, head):
            yield data.task.kind.predict(logits, data.task)


def read_curve(run: FineTuning) -> list[dict[str, Any]]:
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
