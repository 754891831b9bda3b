"""Calibration: how a model's confidence compares with its accuracy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tupe_fairseq.data.task import Task
from tupe_fairseq.finetune.task_data import Labels
from tupe_fairseq.inference.texts import probabilities

_BINS = 10


def decisions(
    task: Task, logits: Sequence[np.ndarray], targets: Labels
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each row the model's confidence in each decision, and which decisions are right.

    A decision is the class, the tag of a word, or for multilabel whether the row has a label.
    """
    found = []
    for x, target in zip(logits, targets):
        shares = probabilities(task, x)
        if task.kind == "multilabel":
            found.append((np.maximum(shares, 1 - shares), (x > 0) == target))
        else:
            right = np.atleast_1d(x.argmax(axis=-1) == target)
            found.append((np.atleast_1d(shares.max(axis=-1)), right))
    return found


def calibration(rows: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Expected calibration error: the mean distance of confidence and accuracy, over ten bins.

    Guo et al. 2017, Eq. 5, https://arxiv.org/abs/1706.04599
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
