"""Answers of any kind of task: measured, and in the words of those who wrote the labels."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from tupe_fairseq.finetune.label_files import Answers
from tupe_fairseq.labelled.metrics import task_metrics
from tupe_fairseq.labelled.task_description import (
    CLASSIFICATION,
    MULTILABEL,
    REGRESSION,
    TAGGING,
    Task,
)


def measured(
    task: Task, names: Sequence[str], predictions: Answers, targets: Answers
) -> dict[str, float]:
    """The metrics of predictions, as fractions.

    Raises:
        ValueError: if there are not as many as true answers.
    """
    if task.kind == TAGGING:
        predictions, targets = _tags(task, predictions), _tags(task, targets)
    return task_metrics(names, predictions, targets)


def flat(answers: Answers) -> np.ndarray:
    """All answers of a split in one array: those of a tagging task one word after the other."""
    return np.concatenate(answers) if isinstance(answers, list) else answers


def in_words(task: Task, answers: Answers) -> list[str]:
    """Each answer as a cell of a file of tabs: a label, a score, or a JSON list of labels or tags.

    Lists are JSON, because labels may have spaces and commas.
    """
    if task.kind == REGRESSION:
        return [str(score) for score in answers.tolist()]
    if task.kind == CLASSIFICATION:
        return [_cell(task.labels[number]) for number in answers.tolist()]
    if task.kind == MULTILABEL:
        answers = map(np.flatnonzero, answers)
    return [_json([task.labels[number] for number in row]) for row in answers]


def from_words(task: Task, cells: Sequence[str]) -> Answers:
    """The answers of :func:`in_words`.

    Raises:
        ValueError: if one is not of the task.
    """
    if task.kind == REGRESSION:
        scores = np.array([float(cell) for cell in cells])
        if not np.isfinite(scores).all():
            raise ValueError("it has a score that is not finite")
        return scores
    known = {_cell(label) if task.kind == CLASSIFICATION else label: number
             for number, label in enumerate(task.labels)}  # fmt: skip
    try:
        if task.kind == CLASSIFICATION:
            return np.array([known[cell] for cell in cells], dtype=np.int64)
        rows = [[known[label] for label in _list(cell)] for cell in cells]
    except KeyError as error:
        raise ValueError(f"{error} is no label of {task.name}") from error
    if task.kind == TAGGING:
        return [np.array(row, dtype=np.int64) for row in rows]
    labels = np.zeros((len(rows), task.num_classes), dtype=bool)
    for row, numbers in zip(labels, rows):
        row[numbers] = True
    return labels


def _tags(task: Task, rows: Sequence[np.ndarray]) -> list[list[str]]:
    return [[task.labels[number] for number in row.tolist()] for row in rows]


def _cell(label: str) -> str:
    """The label itself, unless it would end the cell or the line."""
    return _json(label) if any(sign in label for sign in "\t\n\r") else label


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(cell: str) -> list[str]:
    found = json.loads(cell)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"{cell[:50]} is not a list of labels")
    return found
