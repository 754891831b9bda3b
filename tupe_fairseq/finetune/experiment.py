"""What a task is for its runs."""

import functools
import math
import os
from dataclasses import dataclass

from tupe_fairseq.finetune.options import FinetuneOptions
from tupe_fairseq.labelled.task_folder import TaskData
from tupe_fairseq.results.scores import flat

#: with fewer updates a new head is hardly trained; with more passes a small set is memorized
FEWEST_UPDATES, MOST_EPOCHS = 300, 50


def balanced_weights(data: TaskData) -> list[float]:
    """--balance: the weight of each class in the loss, with six digits; see ``Kind.class_weights``.

    A class that no row has, or a label that all have, cannot be weighed.
    """
    task = data.task
    if not task.labels:
        raise ValueError(
            f"--balance weighs classes, but {task.name} is a {task.kind.name}; drop it"
        )
    train = data.targets("train")
    counts, weights = task.kind.class_weights(train, task)
    for label, number, weight in zip(task.labels, counts, weights):
        if not 0 < weight < math.inf:
            raise ValueError(
                f"--balance cannot weigh {label!r}: in train of {data.folder}, {number} of "
                f"{len(flat(train))} have it; drop --balance"
            )
    return [float(f"{weight:.6g}") for weight in weights]


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
    """A task, or a fold of it, and a model."""

    options: FinetuneOptions
    data: TaskData
    checkpoint: str  # absolute
    model_flags: tuple[str, ...]
    max_positions: int
    fold: str = ""
    class_weights: list[float] | None = None  # of each class in the loss

    @property
    def name(self) -> str:
        return ", ".join(filter(None, [self.data.task.name, self.fold]))

    @property
    def folder(self) -> str:
        """RUNS/TASK, or RUNS/TASK/FOLD."""
        names = filter(None, [self.data.task.name, self.fold])
        return os.path.join(self.options.output_dir, *names)

    @functools.cached_property
    def updates(self) -> int:
        own, longest = self.options, self.max_positions
        return own.epochs * updates_per_epoch(self.data, longest, own.batch_size)

    def task_flags(self) -> list[object]:
        task, weights = self.data.task, self.class_weights
        name = task.kind.fairseq_task
        args: list[object] = ["--task", name, "--criterion", name]
        if task.benchmark and self.options.metric is None:
            args += ["--glue-task", task.name]
        else:
            args += ["--metrics", ",".join(dict.fromkeys([*task.metrics, task.selection]))]
        args += ["--num-classes", task.num_classes]
        args += task.kind.train_flags()
        args += [] if weights is None else ["--class-weights", ",".join(map(repr, weights))]
        return args
