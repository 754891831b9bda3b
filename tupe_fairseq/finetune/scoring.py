"""Scores of predictions: metrics with intervals, baselines, class weights."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tupe_fairseq.data.metrics import METRICS, check_metrics, metrics_of_counts, task_metrics
from tupe_fairseq.data.text_files import read_lines
from tupe_fairseq.files import atomic_write
from tupe_fairseq.kinds.base import Labels
from tupe_fairseq.labelled.task import Task
from tupe_fairseq.labelled.task_folder import TaskData

#: draws of a bootstrap interval, and their seed
DRAWS, _SEED = 1000, 1


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
    """Each metric and its 95% interval; both are None if the metric is undefined."""
    sides = _sides(task, predicted)
    names, number = metric_names(task), len(sides[0])
    measured, draw = metrics_of_counts(names, *sides), np.random.default_rng(_SEED)
    drawn = (draw.integers(number, size=number) for _ in range(DRAWS))
    draws = [measured(np.bincount(rows, minlength=number) * 1.0) for rows in drawn]
    found = {}
    for name, value in measured(np.ones(number)).items():
        interval = None
        if not math.isnan(value):
            interval = _interval(value, [one[name] for one in draws], METRICS[name].lowest, number)
        found[name] = {"value": None if interval is None else value, "interval": interval}
    return found


def _interval(value: float, draws: list[float], lowest: float, rows: int) -> list[float]:
    """The 95% interval of bootstrap draws.

    If it has no width, as when all rows are right, it is Wilson's for the value as a share of the
    metric's range: Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953
    """
    ends = np.nanquantile(draws, [0.025, 0.975]).tolist()
    if ends[1] - ends[0] > 1e-9:  # rounding
        return ends
    width, z = 1 - lowest, 1.959964
    share, weight = (value - lowest) / width, z**2 / rows
    middle = (share + weight / 2) / (1 + weight)
    half = math.sqrt(weight * (share * (1 - share) + weight / 4)) / (1 + weight)
    return [lowest + width * min(1.0, max(0.0, middle + side * half)) for side in (-1, 1)]


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
        for number, (value, *shares) in enumerate(map(dict.values, predictions)):
            columns = {"row": index[number]} if index else {}
            columns["prediction"] = _cell(value)
            if targets is not None:
                columns["target"] = _cell(targets[number])
            if shares:
                columns["probability"] = _cell(*shares)
            for line in (columns, columns.values()) if number == 0 else (columns.values(),):
                file.write("\t".join(line) + "\n")


def read_predictions(path: str, data: TaskData, split: str) -> Predicted:
    """Read what :func:`write_predictions` wrote."""
    task = data.task
    lines = [line.split("\t") for line in read_lines(path)]
    try:
        column = lines[0].index("prediction")
        cells = [line[column] for line in lines[1:]]
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
