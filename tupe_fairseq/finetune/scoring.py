"""Scores of predictions: metrics with intervals, baselines, class weights, the best runs."""

import json
import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np

from tupe_fairseq.data.metrics import check_metrics, metrics_of_rows, task_metrics
from tupe_fairseq.data.task import Task, as_tuple
from tupe_fairseq.data.text_files import read_lines
from tupe_fairseq.files import atomic_write
from tupe_fairseq.finetune.command import Run
from tupe_fairseq.finetune.task_data import Labels, TaskData
from tupe_fairseq.runs.tables import spread

#: draws of a bootstrap interval, and their seed
DRAWS, _SEED = 1000, 1
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
    return task_metrics(metric_names(task), *_sides(task, predicted))


def _sides(task: Task, predicted: Predicted) -> Sequence[Any]:
    """Predictions and targets in the form that metrics take."""
    return [spelled(task, side) for side in predicted] if task.kind == "tagging" else predicted


def with_intervals(task: Task, predicted: Predicted) -> dict[str, dict[str, Any]]:
    """Each metric and its 95% bootstrap interval, from rows drawn with replacement."""
    sides = _sides(task, predicted)
    functions = metrics_of_rows(metric_names(task), *sides)
    number, draw = len(sides[0]), np.random.default_rng(_SEED)
    rows = (draw.integers(number, size=number) for _ in range(DRAWS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about draws with a single class
        values = [[function(drawn) for function in functions.values()] for drawn in rows]
    ends = np.quantile(values, [0.025, 0.975], axis=0).T.tolist()
    whole = {name: function(slice(None)) for name, function in functions.items()}
    return {n: {"value": whole[n], "interval": of} for n, of in zip(functions, ends)}


def flat(labels: Labels) -> np.ndarray:
    """The labels in one array; the tags of all rows are concatenated."""
    return np.concatenate(labels) if isinstance(labels, list) else labels


def joined(parts: Sequence[Labels]) -> Labels:
    """The labels of several sets, concatenated."""
    if isinstance(parts[0], list):
        return [row for part in parts for row in part]
    return np.concatenate(parts)


def spelled(task: Task, labels: Labels) -> list[Any]:
    """For each row the label, the score, or the list of labels or tags, as users write them."""
    if task.kind == "regression":
        return labels.tolist()
    if task.kind == "classification":
        return [task.labels[number] for number in labels.tolist()]
    rows = map(np.flatnonzero, labels) if task.kind == "multilabel" else labels
    return [[task.labels[number] for number in row.tolist()] for row in rows]


def as_arrays(task: Task, labels: Sequence[Any]) -> Labels:
    """The inverse of :func:`spelled`: labels in the form of :meth:`TaskData.targets`."""
    if task.kind == "regression":
        return np.array(labels, dtype=np.float64)
    number = {label: n for n, label in enumerate(task.labels)}
    rows = [np.array([number[one] for one in as_tuple(label)], dtype=int) for label in labels]
    if task.kind == "multilabel":
        return np.array([np.isin(np.arange(task.num_classes), row) for row in rows])
    return np.concatenate(rows) if task.kind == "classification" else rows


def _cell(value: Any) -> str:
    """A cell of a .tsv: a text as it is, unless it would end the cell or the line; else JSON."""
    is_plain = isinstance(value, str) and not set("\t\n\r") & set(value) and value[:1] != '"'
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def write_predictions(
    path: str, predictions: Iterable[dict[str, Any]], targets: list | None, index: list[str]
) -> None:
    """Write a line for each row: its number, the prediction, the true label, the probability.

    ``predictions`` come from :func:`tupe_fairseq.inference.texts.prediction`, ``targets`` from
    :func:`spelled` (None if unknown); an empty ``index`` leaves out the numbers.
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
        is_json = task.kind in ("multilabel", "tagging")
        values = [json.loads(x) if is_json or x[:1] == '"' else x for x in cells]
        predictions = as_arrays(task, values)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error}); delete it and run this again") from error
    return Predicted(predictions, data.targets(split) if data.has_labels(split) else None)


def baseline(data: TaskData) -> dict[str, Any]:
    """The scores of predictions that ignore the text, which a model should beat.

    They are the most frequent class of the training set, the mean score, the most frequent set of
    labels, or for tagging the most frequent tag of each word (of all words, if the training set
    does not have it).
    """
    answer, predict = constant_predictions(data)

    def scores(kind: str) -> dict[str, dict[str, float]]:
        return {
            split: measure(data.task, Predicted(predict(split), data.targets(split)))
            for split in data.splits(kind)
            if data.has_labels(split)
        }

    test = {} if data.task.benchmark else {"test": scores("test")}
    return {"answer": answer, "metrics": scores("valid"), **test}


def constant_predictions(data: TaskData) -> tuple[str, Callable[[str], Labels]]:
    """What the baseline predicts, as text, and a function that gives its labels for a split."""
    task, train = data.task, data.targets("train")
    if task.kind == "tagging":
        return _tag_of_each_word(data, train)
    if task.kind == "multilabel":
        constant = np.array(Counter(map(tuple, train.tolist())).most_common(1)[0][0])
        answer = ", ".join(spelled(task, [constant])[0]) or "no label"
    elif task.kind == "regression":
        constant = train.mean()
        answer = f"{constant:.3f}"
    else:
        constant = np.bincount(train).argmax()
        answer = task.labels[constant]
    return answer, lambda split: np.broadcast_to(constant, data.targets(split).shape)


def _tag_of_each_word(data: TaskData, train: Labels) -> tuple[str, Callable[[str], Labels]]:
    counts: dict[tuple, np.ndarray] = defaultdict(lambda: np.zeros(data.task.num_classes, int))
    for words, tags in zip(data.texts("train"), train):
        for word, tag in zip(map(tuple, words), tags):
            counts[word][tag] += 1
    most = sum(counts.values()).argmax()

    def predict(split: str) -> Labels:
        return [
            np.array([counts[w].argmax() if w in counts else most for w in map(tuple, words)])
            for words in data.texts(split)
        ]

    return data.task.labels[most], predict


def balanced_weights(data: TaskData) -> list[float]:
    """--balance: the weight of each class in the loss, with six digits.

    n / (C n_c) for a class with n_c of n rows (or words), out of C classes; for a multilabel task,
    the number of rows without a label divided by the number with it.
    """
    task = data.task
    if task.is_regression:
        raise ValueError(f"--balance weighs classes, but {task.name} is a {task.kind}; drop it")
    train = flat(data.targets("train"))
    is_multilabel = task.kind == "multilabel"
    counts = train.sum(axis=0) if is_multilabel else np.bincount(train, minlength=task.num_classes)
    for label, number in zip(task.labels, counts):
        if number == 0 or (is_multilabel and number == len(train)):
            raise ValueError(
                f"--balance cannot weigh {label!r}: in train of {data.folder}, {number} of "
                f"{len(train)} have it; drop --balance"
            )
    total, size = len(train), len(counts)
    weights = (total - counts) / counts if is_multilabel else total / (size * counts)
    return [float(f"{weight:.6g}") for weight in weights]


def best_run(results: Results, task: Task) -> Run | None:
    """The best run on the main development set, the first if tied; None if all diverged."""
    scores = {
        run: results[run]["metrics"]["valid"][task.selection]
        for run in sorted(results)
        if results[run]["metrics"]
    }
    return max(scores, key=scores.__getitem__, default=None)


def by_learning_rate(results: Results, task: Task) -> list[dict[str, Any]]:
    """Medians over the seeds of each learning rate; a diverged run is below all others.

    If half or more of the runs at a rate diverged, its ``metrics`` is None.
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
        scores = [one and one["valid"][task.selection] for one in all_metrics]
        row = {"lr": runs[0]["lr"], "seeds": seeds, "diverged": diverged, "metrics": metrics}
        table.append({**row, "spread": spread(scores)})
    return table


def best_rate(table: list[dict[str, Any]], task: Task) -> dict[str, Any]:
    """The row with the highest median, of those with the most seeds: a single seed may be lucky."""
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
