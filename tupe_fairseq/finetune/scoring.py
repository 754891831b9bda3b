"""Scores of predictions: metrics, baselines, class weights, and the best of several runs."""

import json
import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np

from tupe_fairseq.data.metrics import check_metrics, task_metrics
from tupe_fairseq.data.task import CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING, Task
from tupe_fairseq.files import atomic_write
from tupe_fairseq.finetune.command import Run
from tupe_fairseq.finetune.task_data import Labels, TaskData

#: the result.json of each finished run
Results = dict[Run, dict[str, Any]]


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


def measure(task: Task, predicted: Predicted) -> dict[str, float]:
    """The metrics, as fractions."""
    predictions, targets = predicted
    if task.kind == TAGGING:
        predictions, targets = ([_names(task, row) for row in rows] for rows in predicted)
    return task_metrics(metric_names(task), predictions, targets)


def flat(labels: Labels) -> np.ndarray:
    """The labels in one array: the tags of all rows."""
    return np.concatenate(labels) if isinstance(labels, list) else labels


def _names(task: Task, numbers: np.ndarray) -> list[str]:
    return [task.labels[number] for number in numbers.tolist()]


def to_strings(task: Task, labels: Labels) -> list[str]:
    """Labels as cells of a .tsv: a label, a score, or a JSON list of labels or tags."""
    if task.kind == REGRESSION:
        return [str(score) for score in labels.tolist()]
    if task.kind == CLASSIFICATION:
        return [_cell(label) for label in _names(task, labels)]
    rows = map(np.flatnonzero, labels) if task.kind == MULTILABEL else labels
    return [json.dumps(_names(task, row), ensure_ascii=False) for row in rows]


def _cell(label: str) -> str:
    """The label itself, unless it would end the cell or the line."""
    return json.dumps(label, ensure_ascii=False) if set("\t\n\r") & set(label) else label


def from_strings(task: Task, cells: list[str]) -> Labels:
    """The labels of :func:`to_strings`."""
    if task.kind == REGRESSION:
        return np.array(cells, dtype=np.float64)
    if task.kind == CLASSIFICATION:
        numbers = {_cell(label): number for number, label in enumerate(task.labels)}
        return np.array([numbers[cell] for cell in cells], dtype=np.int64)
    rows = [[task.labels.index(label) for label in json.loads(cell)] for cell in cells]
    if task.kind == TAGGING:
        return [np.array(row, dtype=np.int64) for row in rows]
    return np.array([[n in row for n in range(task.num_classes)] for row in rows], dtype=bool)


def write_predictions(
    path: str,
    task: Task,
    predicted: Predicted,
    index: list[str] | None = None,
    probabilities: Sequence[np.ndarray] | None = None,
) -> None:
    """Write a line for each row: its number, the prediction, the true label, the probability.

    What is not known is left out. Of several labels those that are predicted have a probability.
    """
    columns = {"row": index} if index else {}
    columns["prediction"] = to_strings(task, predicted.predictions)
    if predicted.targets is not None:
        columns["target"] = to_strings(task, predicted.targets)
    if probabilities is not None:
        if task.kind == MULTILABEL:
            probabilities = [x[chosen] for x, chosen in zip(probabilities, predicted.predictions)]
        columns["probability"] = [
            json.dumps(x.astype(float).round(6).tolist()) for x in probabilities
        ]
    with atomic_write(path) as file:
        for row in (columns, *zip(*columns.values())):
            file.write("\t".join(row) + "\n")


def read_predictions(path: str, data: TaskData, split: str) -> Predicted | None:
    """What :func:`write_predictions` wrote; None if there is no such file."""
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8", newline="\n") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    try:
        column = lines[0].index("prediction")
        cells = [line[column] for line in lines[1:]]
        predictions = from_strings(data.task, cells)
    except (IndexError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error}); delete it and run this again") from error
    return Predicted(predictions, data.targets(split) if data.has_labels(split) else None)


def baseline(data: TaskData) -> dict[str, Any]:
    """The scores of predictions that do not look at the text: the least to beat.

    A classification gives the most frequent class of the training set, a regression the mean
    score, a multilabel task the most frequent set of labels, and tagging the most frequent tag of
    each word (of all words, if it is not in the training set).
    """
    answer, predict = _baseline(data)

    def scores(kind: str) -> dict[str, dict[str, float]]:
        return {
            split: measure(data.task, Predicted(predict(split), data.targets(split)))
            for split in data.splits(kind)
            if data.has_labels(split)
        }

    test = {} if data.task.benchmark else {"test": scores("test")}
    return {"answer": answer, "metrics": scores("valid"), **test}


def _baseline(data: TaskData) -> tuple[str, Callable[[str], Labels]]:
    task, train = data.task, data.targets("train")
    if task.kind == TAGGING:
        return _tag_of_each_word(data, train)
    if task.kind == MULTILABEL:
        constant = np.array(Counter(map(tuple, train.tolist())).most_common(1)[0][0])
        answer = ", ".join(_names(task, np.flatnonzero(constant))) or "no label"
    elif task.kind == REGRESSION:
        constant = train.mean()
        answer = f"{constant:.3f}"
    else:
        constant = np.bincount(train).argmax()
        answer = task.labels[constant]
    return answer, lambda split: np.broadcast_to(constant, data.targets(split).shape)


def _tag_of_each_word(data: TaskData, train: Labels) -> tuple[str, Callable[[str], Labels]]:
    counts: dict[bytes, np.ndarray] = defaultdict(lambda: np.zeros(data.task.num_classes, int))
    for words, tags in zip(data.words("train"), train):
        for word, tag in zip(words, tags):
            counts[word][tag] += 1
    most = sum(counts.values()).argmax()

    def predict(split: str) -> Labels:
        return [
            np.array([counts[word].argmax() if word in counts else most for word in words])
            for words in data.words(split)
        ]

    return data.task.labels[most], predict


def balanced_weights(data: TaskData) -> list[float]:
    """--balance: the weight of each class in the loss, with six digits.

    n / (C n_c) for a class with n_c of n rows (or words), out of C classes; for a multilabel task,
    of the rows with a label: how many rows there are without it for each of them.
    """
    from sklearn.utils.class_weight import compute_class_weight

    task = data.task
    if task.kind == REGRESSION:
        raise ValueError(f"--balance weighs classes, but {task.name} is a regression; drop it")
    train = flat(data.targets("train"))
    is_multilabel = task.kind == MULTILABEL
    counts = train.sum(axis=0) if is_multilabel else np.bincount(train, minlength=task.num_classes)
    for label, number in zip(task.labels, counts):
        if number == 0 or (is_multilabel and number == len(train)):
            raise ValueError(
                f"--balance cannot weigh {label!r}, which {number} of {len(train)} have in train "
                f"of {data.folder}; drop --balance"
            )
    if is_multilabel:
        weights = (len(train) - counts) / counts
    else:
        weights = compute_class_weight("balanced", classes=np.arange(task.num_classes), y=train)
    return [float(f"{weight:.6g}") for weight in weights]


def best_run(results: Results, task: Task) -> Run | None:
    """The best on the main development set, the first if tied; None if all diverged."""
    scores = {
        run: results[run]["metrics"]["valid"][task.selection]
        for run in sorted(results)
        if results[run]["metrics"]
    }
    return max(scores, key=scores.__getitem__, default=None)


def by_learning_rate(results: Results, task: Task) -> list[dict[str, Any]]:
    """Medians over the seeds of each learning rate; a diverged run is below all others.

    Of a rate at which half of the runs diverge, or more, ``metrics`` is None.
    """
    table, splits = [], [split for split in task.splits if "valid" in split]
    for lr in dict.fromkeys(run.lr for run in sorted(results)):
        runs = [results[run] for run in sorted(results) if run.lr == lr]
        all_metrics = [run["metrics"] for run in runs]
        medians = {
            split: {
                name: median(one[split][name] if one else -math.inf for one in all_metrics)
                for name in metric_names(task)
            }
            for split in splits
        }
        seeds, diverged = [run["seed"] for run in runs], all_metrics.count(None)
        metrics = None if 2 * diverged >= len(runs) else medians
        table.append(
            {"lr": runs[0]["lr"], "seeds": seeds, "diverged": diverged, "metrics": metrics}
        )
    return table


def best_rate(table: list[dict[str, Any]], task: Task) -> dict[str, Any]:
    """The row with the highest median, of those with the most seeds: one may be lucky."""
    most = max(len(row["seeds"]) for row in table)
    whole = [row for row in table if len(row["seeds"]) == most]
    return max(
        whole, key=lambda x: x["metrics"]["valid"][task.selection] if x["metrics"] else -math.inf
    )


def score(metrics: dict[str, dict[str, float]] | None, task: Task) -> float | None:
    """One number for a task: the mean over its development sets, and over GLUE's metrics."""
    if metrics is None:
        return None
    names = task.metrics if task.benchmark else (task.selection,)
    return fmean(metrics[split][name] for split in metrics for name in names)
