"""Calibration, and the rows that are most wrong."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tupe_fairseq.data.task import MULTILABEL, Task
from tupe_fairseq.finetune.scoring import Predicted
from tupe_fairseq.finetune.task_data import Labels
from tupe_fairseq.inference.texts import probabilities

_BINS = 10


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
