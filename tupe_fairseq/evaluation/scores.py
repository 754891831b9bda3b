"""Metrics with bootstrap intervals, calibration, and the rows that are most wrong."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tupe_fairseq.data.metrics import METRICS, as_bioes
from tupe_fairseq.data.task import CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING, Task, as_tuple
from tupe_fairseq.finetune.scoring import Predicted, measure, metric_names, spelled
from tupe_fairseq.finetune.task_data import Labels
from tupe_fairseq.inference.texts import prediction, probabilities

DRAWS, _SEED = 1000, 1
_BINS = 10


def as_arrays(task: Task, labels: Sequence[Any]) -> Labels:
    """Labels as users write them, in the form of :meth:`TaskData.targets`."""
    if task.kind == REGRESSION:
        return np.array(labels, dtype=np.float64)
    number = {label: n for n, label in enumerate(task.labels)}
    rows = [np.array([number[one] for one in as_tuple(label)], dtype=int) for label in labels]
    if task.kind == MULTILABEL:
        return np.array([np.isin(np.arange(task.num_classes), row) for row in rows])
    return np.concatenate(rows) if task.kind == CLASSIFICATION else rows


def predicted_arrays(task: Task, logits: Sequence[np.ndarray]) -> Labels:
    """What the outputs of the head say, in the same form."""
    if task.kind == REGRESSION:
        return np.array([prediction(task, x)["score"] for x in logits])
    if task.kind == MULTILABEL:
        return np.stack(logits) > 0
    classes = [x.argmax(axis=-1) for x in logits]
    return np.array(classes) if task.kind == CLASSIFICATION else classes


def with_intervals(task: Task, predicted: Predicted) -> dict[str, dict[str, Any]]:
    """Each metric, and the interval of the middle 95% of its values for rows drawn with repeats."""
    sides = predicted if task.kind != TAGGING else [spelled(task, side) for side in predicted]
    functions = {name: _of_rows(name, task, *sides) for name in metric_names(task)}
    number, draw = len(sides[0]), np.random.default_rng(_SEED)
    rows = (draw.integers(number, size=number) for _ in range(DRAWS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of draws with one class alone
        values = [[function(drawn) for function in functions.values()] for drawn in rows]
    ends = np.quantile(values, [0.025, 0.975], axis=0).T.tolist()
    metrics = measure(task, predicted)
    return {n: {"value": metrics[n], "interval": of} for n, of in zip(functions, ends)}


def _of_rows(name: str, task: Task, predictions, targets) -> Callable[[np.ndarray], float]:
    """The metric of some of the rows.

    Most are the mean over classes (or of one ratio) of sums over the rows, which are fast to draw.
    """
    if name == "entity_f1":
        hits, of_both = np.array(list(map(_entities, as_bioes(predictions), as_bioes(targets)))).T
    elif name == "accuracy" and task.kind == TAGGING:
        hits = np.array([sum(map(str.__eq__, *pair)) for pair in zip(predictions, targets)])
        of_both = np.array(list(map(len, targets)))
    elif name == "accuracy":
        hits, of_both = predictions == targets, np.ones(len(targets))
    elif name in ("f1", "macro_f1", "micro_f1"):
        if task.kind == CLASSIFICATION:
            predictions, targets = (np.eye(task.num_classes)[x] for x in (predictions, targets))
        hits, of_both = 2.0 * predictions * targets, 0.0 + predictions + targets
        if name != "macro_f1":
            hits, of_both = (x[:, 1] if name == "f1" else x.sum(axis=1) for x in (hits, of_both))
    else:
        return lambda rows: float(METRICS[name].function(targets[rows], predictions[rows]))
    sums = np.stack([hits, of_both], axis=1).astype(np.float64)

    def value(rows: np.ndarray) -> float:
        counts = np.bincount(rows, minlength=len(sums))
        above, below = map(np.atleast_1d, np.tensordot(counts, sums, 1))
        return float((above[below > 0] / below[below > 0]).mean()) if below.any() else 0.0

    return value


def _entities(predictions: list[str], targets: list[str]) -> tuple[int, int]:
    """Twice those that are right, and how many there are on both sides together."""
    from seqeval.metrics.sequence_labeling import get_entities

    both = [set(get_entities(tags)) for tags in (predictions, targets)]
    return 2 * len(both[0] & both[1]), len(both[0]) + len(both[1])


def decisions(
    task: Task, logits: Sequence[np.ndarray], targets: Labels, temperature: float = 1.0
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each row how sure the model is of each decision, and which are right.

    Decisions are the class, the tag of each word, or for each label whether the row has it.
    """
    found = []
    for x, target in zip(logits, targets):
        shares = probabilities(task, x / temperature)
        if task.kind == MULTILABEL:
            found.append((np.maximum(shares, 1 - shares), (x > 0) == target))
        else:
            right = np.atleast_1d(x.argmax(axis=-1) == target)
            found.append((np.atleast_1d(shares.max(axis=-1)), right))
    return found


def calibration(rows: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Expected calibration error: in bins, the distance of mean confidence and share of right ones.

    Guo et al. 2017, Eq. 5, https://arxiv.org/abs/1706.04599, with ten bins.
    """
    sure, right = map(np.concatenate, zip(*rows))
    places = np.clip(np.ceil(sure * _BINS).astype(int) - 1, 0, _BINS - 1)
    counts = np.bincount(places, minlength=_BINS)
    sums = [np.bincount(places, weights, minlength=_BINS) for weights in (sure, right)]
    error = np.abs(sums[0] - sums[1]).sum() / len(sure)
    means = [(x / np.maximum(counts, 1)).tolist() for x in sums]
    bins = [
        {"from": n / _BINS, "to": (n + 1) / _BINS, "number": k, "confidence": a, "right": b}
        for n, (k, a, b) in enumerate(zip(counts.tolist(), *means))
    ]
    return {
        "expected_calibration_error": float(error),
        "confidence": float(sure.mean()),
        "right": float(right.mean()),
        "bins": [one for one in bins if one["number"]],
    }


def errors(
    predicted: Predicted, rows: Sequence[tuple[np.ndarray, np.ndarray]] | None
) -> list[tuple[int, float]]:
    """The places of wrong rows, and how sure the model was or how far off; the worst first.

    Args:
        rows: of :func:`decisions`; None for scores.
    """
    if rows is None:
        sizes = np.abs(predicted.predictions - predicted.targets).tolist()
    else:
        sizes = [float(np.max(sure, where=~right, initial=0.0)) for sure, right in rows]
    found = ((place, size) for place, size in enumerate(sizes) if size > 0)
    return sorted(found, key=lambda error: -error[1])
