"""Scores of predictions: metrics with intervals, baselines, and files of predictions."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tupe_fairseq.data.metrics import METRICS, check_metrics, task_metrics
from tupe_fairseq.data.rows import row_writer
from tupe_fairseq.data.text_files import read_lines
from tupe_fairseq.files import atomic_write
from tupe_fairseq.kinds.base import Labels
from tupe_fairseq.labelled.task import Task
from tupe_fairseq.labelled.task_folder import TaskData
from tupe_fairseq.results.intervals import over_rows
from tupe_fairseq.results.page import percent


class Predicted(NamedTuple):
    """Predictions and true labels in the order of the rows; None if the latter are unknown."""

    predictions: Labels
    targets: Labels | None


def metric_names(task: Task) -> list[str]:
    """The task's metrics, and the one that picks checkpoints."""
    return list(dict.fromkeys([*task.metrics, task.selection]))


def with_metric(task: Task, metric: str | None) -> Task:
    """The task with another metric that picks checkpoints."""
    if metric is None:
        return task
    check_metrics([metric], task.kind, task.labels, f"--metric {metric}")
    return replace(task, selection=metric)


def with_more(task: Task, metric: str | None) -> Task:
    """The task with one more metric."""
    more = with_metric(task, metric).selection
    return replace(task, metrics=tuple(dict.fromkeys([*metric_names(task), more])))


def measure(task: Task, predicted: Predicted) -> dict[str, float]:
    """The metrics, as fractions."""
    return task_metrics(metric_names(task), *_sides(task, predicted))


def _sides(task: Task, predicted: Predicted) -> Sequence[Any]:
    """Predictions and targets in the form that metrics take."""
    return [task.kind.measured(side, task) for side in predicted]


def with_intervals(task: Task, predicted: Predicted) -> dict[str, dict[str, Any]]:
    """The :func:`over_rows` of the metrics."""
    return over_rows(metric_names(task), *_sides(task, predicted))


def metric_cells(scores: dict[str, Any]) -> dict[str, str]:
    """Cells of a table's row: a column for each metric, with or without intervals."""
    cells = {}
    for name, one in scores.items():
        shown = (one["value"], one["interval"]) if isinstance(one, dict) else (one,)
        cells[METRICS[name].label] = percent(*shown)
    return cells


def undefined(metrics: dict[str, dict[str, Any]]) -> str:
    """A sentence if a metric is undefined."""
    text = "A correlation is undefined if all labels or all predictions are equal."
    return text if any(one["value"] is None for one in metrics.values()) else ""


def flat(labels: Labels) -> np.ndarray:
    """The labels in one array; the tags of all rows are concatenated."""
    return np.concatenate(labels) if isinstance(labels, list) else labels


def joined(parts: Sequence[Labels]) -> Labels:
    """The labels of several sets, concatenated."""
    if isinstance(parts[0], list):
        return [row for part in parts for row in part]
    return np.concatenate(parts)


def _cell(value: Any) -> str:
    """A cell of a .tsv: a text as it is, unless it would end the cell or the line; else JSON."""
    is_plain = isinstance(value, str) and not set("\t\n\r") & set(value) and value[:1] != '"'
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def write_predictions(
    path: str, predictions: Iterable[dict[str, Any]], targets: list | None, index: list[str]
) -> None:
    """Write a line for each row: its number, the prediction, the true label, the probability.

    ``predictions`` come from ``Kind.predict``, ``targets`` from ``Kind.spell`` (None if unknown);
    an empty ``index`` leaves out the numbers.
    """
    with atomic_write(path) as file:
        write = None
        for number, (value, *shares) in enumerate(map(dict.values, predictions)):
            row = {"row": index[number]} if index else {}
            row["prediction"] = value
            row |= {} if targets is None else {"target": targets[number]}
            row |= {"probability": shares[0]} if shares else {}
            write = write or row_writer(".tsv", file, [*row])
            write({name: _cell(one) for name, one in row.items()})


def prediction_rows(path: str) -> list[dict[str, str]]:
    """The cells of what :func:`write_predictions` wrote."""
    header, *lines = (line.split("\t") for line in read_lines(path))
    return [dict(zip(header, line)) for line in lines]


def read_predictions(path: str, data: TaskData, split: str) -> Predicted:
    """Read what :func:`write_predictions` wrote."""
    task = data.task
    try:
        cells = [row["prediction"] for row in prediction_rows(path)]
        values = [json.loads(x) if task.kind.many or x[:1] == '"' else x for x in cells]
        predictions = task.kind.unspell(values, task)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error}); delete it and run this again") from error
    return Predicted(predictions, data.targets(split) if data.has_labels(split) else None)


def baseline(data: TaskData) -> dict[str, Any]:
    """The scores of predictions that ignore the text, which a model should beat.

    See ``Kind.baseline``.
    """
    answer, predict = data.task.kind.baseline(data)

    def scores(kind: str) -> dict[str, dict[str, float]]:
        return {
            split: measure(data.task, Predicted(predict(split), data.targets(split)))
            for split in data.splits(kind)
            if data.has_labels(split)
        }

    test = {} if data.task.benchmark else {"test": scores("test")}
    return {"answer": answer, "metrics": scores("valid"), **test}
