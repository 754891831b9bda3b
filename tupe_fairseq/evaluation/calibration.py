"""Calibration: how a model's confidence compares with its accuracy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

_BINS = 10


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
