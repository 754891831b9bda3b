"""The runs of a task: shared settings, the command of each run, and the finished results."""

import functools
import os
import re
from dataclasses import dataclass
from typing import Optional

from tupe_fairseq.fairseq_runs.command import as_shell, fairseq_train, user_dir
from tupe_fairseq.fairseq_runs.schedule import (
    WARMUP_RATIO,
    batches_per_epoch,
    total_updates,
    warmup_updates,
)
from tupe_fairseq.finetune.label_files import count_windows
from tupe_fairseq.finetune.pretrained import Pretrained
from tupe_fairseq.finetune.selection import metric_names
from tupe_fairseq.finetune.task_folder import TaskData
from tupe_fairseq.labelled.task_description import MULTILABEL, TAGGING

_NAME = re.compile(r"lr(\d+(?:\.\d+)?(?:e[+-]?\d+)?)-seed(\d+)")


@dataclass(frozen=True, order=True)
class FineTuningRun:
    """One run of the grid; runs are ordered by learning rate, then seed.

    Args:
        lr (float): the peak learning rate.
        seed (int): fairseq's seed: the new head, the order of the batches, dropout.
    """

    lr: float
    seed: int

    @property
    def lr_text(self) -> str:
        """The learning rate as exact text: 2e-5."""
        return repr(self.lr).replace("e-0", "e-")

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return f"lr{self.lr_text}-seed{self.seed}"

    @classmethod
    def named(cls, name: str) -> Optional["FineTuningRun"]:
        """The run whose folder has this name; None if no run has it."""
        found = _NAME.fullmatch(name)
        run = found and cls(float(found.group(1)), int(found.group(2)))
        return run if run and run.name == name else None


@dataclass(frozen=True)
class RunSettings:
    """The settings that all runs share.

    Args:
        epochs (int): passes over the training set.
        batch_size (int): rows per batch on each GPU.
        update_freq (int): batches accumulated per update.
        gpus (int): number of GPUs; 0 for the CPU.
        fp16 (bool): mixed precision, on GPUs.
        dropout (float): probability, the same for layers, attention and head.
        weight_decay (float): Adam's.
        pretrained (bool): whether the checkpoint's weights are loaded.
        metric (str, optional): picks checkpoints instead of the task's own.
        class_weights (list of float, optional): the weight of each class in the loss.
        patience (int, optional): a run stops after so many validations without a better score.
        pooling (str, optional): what the head gets of a text, if it is not the features of ``<s>``.
    """

    epochs: int
    batch_size: int = 32
    update_freq: int = 1
    gpus: int = 1
    fp16: bool = False
    dropout: float = 0.1
    weight_decay: float = 0.01
    pretrained: bool = True
    # None as in the records of 0.1.0, which had none of them
    metric: str | None = None
    class_weights: list[float] | None = None
    patience: int | None = None
    pooling: str | None = None


@dataclass(frozen=True)
class Experiment:
    """A task, a model and the settings of all runs.

    Args:
        folder (str): RUNS/TASK, absolute.
        data (TaskData): the task's data.
        model (Pretrained): the checkpoint.
        settings (RunSettings): the settings.
    """

    folder: str
    data: TaskData
    model: Pretrained
    settings: RunSettings

    @functools.cached_property
    def updates_per_epoch(self) -> int:
        """The updates of a pass over the training set."""
        data, settings = self.data, self.settings
        # parts of them, of sentences that are too long to be tagged as a whole
        rows = data.rows["train"]
        if data.task.kind == TAGGING:
            rows = count_windows(data.folder, "train", self.model.max_positions)
        batches = batches_per_epoch(rows, settings.batch_size, max(1, settings.gpus))
        return total_updates(batches, 1, update_freq=[settings.update_freq])

    @property
    def updates(self) -> int:
        """The updates of a run."""
        return self.settings.epochs * self.updates_per_epoch

    def path(self, run: FineTuningRun, *names: str) -> str:
        """A file in the run's folder, or the folder itself."""
        return os.path.join(self.folder, run.name, *names)

    def script(self, run: FineTuningRun) -> str:
        """The run's command as a shell script, to be run by hand."""
        return f"# {self.data.task.name}, {run.name}\n{as_shell(self.command(run))}\n"

    def command(self, run: FineTuningRun) -> list[str]:
        """The arguments of the run's fairseq-train command."""
        task, settings = self.data.task, self.settings
        total = self.updates
        words = [fairseq_train(), self.data.folder, "--user-dir", user_dir()]
        words += self._task_flags()
        words += self.model.flags
        # the same numbers in half the time, since sentences differ in length
        words += ["--unpad"]
        if settings.pretrained:
            # not --restore-file: that would be loaded again when an interrupted run resumes
            words += ["--finetune-from-model", self.model.path]
        words += [] if settings.pooling is None else ["--pooling", settings.pooling]
        for name in ("--dropout", "--attention-dropout", "--pooler-dropout"):
            words += [name, settings.dropout]
        # the authors' settings
        words += ["--optimizer", "adam", "--adam-betas", "(0.9, 0.999)", "--adam-eps", 1e-6]
        words += ["--weight-decay", settings.weight_decay, "--clip-norm", 1.0]
        words += ["--lr", run.lr_text, "--lr-scheduler", "polynomial_decay"]
        words += ["--warmup-updates", warmup_updates(WARMUP_RATIO, total)]
        words += ["--total-num-update", total]
        words += ["--max-epoch", settings.epochs, "--batch-size", settings.batch_size]
        words += ["--update-freq", settings.update_freq, "--required-batch-size-multiple", 1]
        words += ["--best-checkpoint-metric", task.selection, "--maximize-best-checkpoint-metric"]
        words += ["--valid-subset", ",".join(self.data.splits("valid"))]
        words += [] if settings.patience is None else ["--patience", settings.patience]
        words += ["--no-epoch-checkpoints", "--save-dir", self.path(run), "--seed", run.seed]
        # no reading ahead: a thread that still reads when the process ends can abort it
        words += ["--num-workers", 0, "--data-buffer-size", 0]
        words += ["--log-format", "json", "--log-interval", 100]
        words += ["--distributed-world-size", max(1, settings.gpus)]
        if settings.gpus == 0:
            words += ["--cpu"]
        if settings.gpus > 1:
            words += ["--find-unused-parameters"]
        if settings.fp16:
            words += ["--fp16", "--fp16-init-scale", 4, "--threshold-loss-scale", 1]
            words += ["--fp16-scale-window", 128]
        return [str(word) for word in words]

    def _task_flags(self) -> list[str]:
        task, weights = self.data.task, self.settings.class_weights
        name = "token_tagging" if task.kind == TAGGING else "glue_sentence_prediction"
        words = ["--task", name, "--criterion", name]
        if task.benchmark and self.settings.metric is None:
            words += ["--glue-task", task.name]
        else:
            words += ["--metrics", ",".join(metric_names(task))]
        words += ["--num-classes", task.num_classes]
        words += [] if task.kind == TAGGING else ["--init-token", 0, "--separator-token", 2]
        words += ["--regression-target"] if task.is_regression else []
        words += ["--multilabel"] if task.kind == MULTILABEL else []
        words += [] if weights is None else ["--class-weights", ",".join(map(repr, weights))]
        return words
