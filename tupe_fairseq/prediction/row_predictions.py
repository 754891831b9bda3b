"""What the outputs of a task's head say about a row, in the words of the task."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tupe_fairseq.labelled.task_description import (
    CLASSIFICATION,
    MULTILABEL,
    REGRESSION,
    TAGGING,
    Task,
)

# of probabilities and scores: what files have
_DIGITS = 6


class Answers(NamedTuple):
    """What is predicted for a row.

    Args:
        names (tuple of str): of the values, columns of a file.
        of (callable): the head's outputs for a row -> the values.  Outputs are numbers, float32
            (C); of a tagging the tags' numbers, int64 (words).
    """

    names: tuple[str, ...]
    of: Callable[[np.ndarray], list[Any]]


def answers(task: Task) -> Answers:
    """What is predicted for the rows of a task.

    - classification: label, and its probability;
    - regression: score, on the scale of the training data;
    - multilabel: labels of a probability above 0.5, and their probabilities, both lists;
    - tagging: tags, a list with one for each word.
    """
    names, make = _KINDS[task.kind]
    return Answers(names, lambda outputs: make(task, outputs))


def _label(task: Task, logits: np.ndarray) -> list[Any]:
    best = int(logits.argmax())
    rest = np.exp(logits.astype(np.float64) - float(logits[best])).sum()
    return [task.labels[best], round(1 / float(rest), _DIGITS)]


def _score(task: Task, outputs: np.ndarray) -> list[Any]:
    low, high = task.scale or (0.0, 1.0)
    return [round(low + (high - low) * float(outputs[0]), _DIGITS)]


def _labels(task: Task, logits: np.ndarray) -> list[Any]:
    chosen = [number for number, logit in enumerate(logits.tolist()) if logit > 0]
    found = [round(1 / (1 + math.exp(-float(logits[number]))), _DIGITS) for number in chosen]
    return [[task.labels[number] for number in chosen], found]


def _tags(task: Task, numbers: Sequence[int]) -> list[Any]:
    return [[task.labels[number] for number in numbers]]


_KINDS: dict[str, tuple[tuple[str, ...], Callable[[Task, Any], list[Any]]]] = {
    CLASSIFICATION: (("label", "probability"), _label),
    REGRESSION: (("score",), _score),
    MULTILABEL: (("labels", "probabilities"), _labels),
    TAGGING: (("tags",), _tags),
}
