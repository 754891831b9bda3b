"""The runs of a task, their settings, and the fairseq-train command of each."""

import functools
import math
import os
from dataclasses import dataclass, field

import numpy as np

from tupe_fairseq.labelled.task_folder import TaskData
from tupe_fairseq.runs import study

#: with fewer updates a new head is hardly trained; with more passes a small set is memorized
FEWEST_UPDATES, MOST_EPOCHS = 300, 50
# the paper's share of the updates for the warm-up
_WARMUP = 0.06


@dataclass(frozen=True)
class Settings:
    """What the runs of a task share."""

    epochs: int  # passes over the training set
    batch_size: int = 32  # rows of a batch
    fp16: bool = False  # mixed precision
    dropout: float = 0.1  # the same for layers, attention and head
    pretrained: bool = True  # whether the weights are the checkpoint's, or random
    metric: str | None = None  # picks checkpoints instead of the task's own
    class_weights: list[float] | None = None  # of each class in the loss
    patience: int | None = None  # a run ends after this many epochs without a better score
    pooling: str | None = None  # how the head pools a text, if it does not take <s>
    train_flags: tuple[str, ...] | None = None  # further flags of fairseq-train


def updates_per_epoch(data: TaskData, max_positions: int, batch_size: int) -> int:
    return math.ceil(data.examples("train", max_positions) / batch_size)


def default_epochs(data: TaskData, *sizes: int) -> int:
    """The task's epochs; a small data set of your own gets more, for enough updates."""
    if data.task.benchmark:
        return data.task.epochs
    needed = math.ceil(FEWEST_UPDATES / updates_per_epoch(data, *sizes))
    return max(data.task.epochs, min(needed, MOST_EPOCHS))


@dataclass(frozen=True, eq=False)
class Experiment:
    """A task, or a fold of it, a model, the settings of all runs, and their folder (absolute)."""

    folder: str  # RUNS/TASK, or RUNS/TASK/FOLD
    data: TaskData
    checkpoint: str  # absolute
    model_flags: tuple[str, ...]
    max_positions: int
    settings: Settings
    cpu: bool = False
    threads: int = 1
    user_dir: str | None = None
    fold: str = ""

    def scored_splits(self) -> list[str]:
        """The splits that each run predicts; GLUE's server has the labels of its test sets."""
        data = self.data
        tests = [] if data.task.benchmark else data.splits("test")
        return [*data.splits("valid"), *filter(data.has_labels, tests)]

    @functools.cached_property
    def updates(self) -> int:
        own, longest = self.settings, self.max_positions
        return own.epochs * updates_per_epoch(self.data, longest, own.batch_size)

    def task_flags(self) -> list[object]:
        task, weights = self.data.task, self.settings.class_weights
        name = task.kind.task_name
        args: list[object] = ["--task", name, "--criterion", name]
        if task.benchmark and self.settings.metric is None:
            args += ["--glue-task", task.name]
        else:
            args += ["--metrics", ",".join(dict.fromkeys([*task.metrics, task.selection]))]
        args += ["--num-classes", task.num_classes]
        args += task.kind.train_flags()
        args += [] if weights is None else ["--class-weights", ",".join(map(repr, weights))]
        return args


@dataclass(frozen=True, order=True)
class Run(study.Run):
    """A peak learning rate, and a seed for the new head, the order of batches and dropout."""

    lr: float
    seed: int
    experiment: Experiment = field(repr=False)

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
        own = self.experiment
        return ", ".join(filter(None, [own.data.task.name, own.fold, self.name]))

    @property
    def folder(self) -> str:
        return os.path.join(self.experiment.folder, self.name)

    @property
    def threads(self) -> int:
        return self.experiment.threads

    @property
    def user_dir(self) -> str | None:
        return self.experiment.user_dir

    @property
    def train_flags(self) -> tuple[str, ...]:
        return self.experiment.settings.train_flags or ()

    def changeable_flags(self) -> list[object]:
        """The authors' settings."""
        own, total = self.experiment, self.experiment.updates
        return [
            *(own.data.folder, "--adam-betas", "(0.9, 0.999)", "--log-interval", 100),
            *("--warmup-updates", math.floor(_WARMUP * total + 0.5)),
        ]

    def fixed_flags(self) -> list[object]:
        own = self.experiment
        task, settings = own.data.task, own.settings
        args = [
            *(*own.task_flags(), *own.model_flags),
            *("--lr", self.lr_text, "--lr-scheduler", "polynomial_decay"),
            *("--total-num-update", own.updates, "--max-epoch", settings.epochs),
            *("--batch-size", settings.batch_size, "--update-freq", 1),
            *("--best-checkpoint-metric", task.selection, "--maximize-best-checkpoint-metric"),
            *("--valid-subset", ",".join(own.data.splits("valid"))),
        ]
        for name in ("--dropout", "--attention-dropout", "--pooler-dropout"):
            args += [name, settings.dropout]
        if settings.pretrained:
            # not --restore-file: that would be loaded again when an interrupted run resumes
            args += ["--finetune-from-model", own.checkpoint]
        args += ["--pooling", settings.pooling] if settings.pooling else []
        args += ["--patience", settings.patience] if settings.patience else []
        args += ["--cpu"] if own.cpu else []
        if settings.fp16:
            args += ["--fp16", "--fp16-init-scale", 4, "--threshold-loss-scale", 1]
            args += ["--fp16-scale-window", 128]
        return args

    def check(self) -> None:
        """Refuse --train-flags that fairseq-train does not know, or that the protocol sets."""
        if self.train_flags:
            # these change the number of updates, or the head
            others = "--max-update", "--max-tokens", "--pooling", "--classification-head-name"
            self.check_train_flags(*others)
