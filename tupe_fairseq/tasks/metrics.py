"""Metrics of predictions, by scikit-learn and scipy."""

import warnings
from typing import Dict, Sequence

import numpy as np
from scipy import stats
from sklearn import metrics

# Reported as one number: the mean of two.
MEANS = {"acc_and_f1": ("accuracy", "f1"), "pearson_and_spearman": ("pearson", "spearman")}


def _correlation(function, predictions, targets) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # undefined for constant predictions; handled below
        value = float(function(predictions, targets)[0])
    return value if np.isfinite(value) else 0.0


_METRICS = {
    "accuracy": lambda predictions, targets: metrics.accuracy_score(targets, predictions),
    "f1": lambda predictions, targets: metrics.f1_score(targets, predictions, zero_division=0),
    "mcc": lambda predictions, targets: metrics.matthews_corrcoef(targets, predictions),
    "pearson": lambda predictions, targets: _correlation(stats.pearsonr, predictions, targets),
    "spearman": lambda predictions, targets: _correlation(stats.spearmanr, predictions, targets),
}


def task_metrics(names: Sequence[str], predictions, targets) -> Dict[str, float]:
    """Compute metrics; each is a fraction, not a percentage.

    A correlation with constant predictions is undefined; it counts as 0, as Matthews' does.

    Args:
        names (sequence of str): out of accuracy, f1 (of class 1), mcc, pearson, spearman,
            acc_and_f1, pearson_and_spearman.
        predictions (sequence): a class index or a score for each row.
        targets (sequence): the true ones.
    Raises:
        ValueError: if the two differ in length, or are shorter than 2.
    """
    predictions, targets = np.asarray(predictions), np.asarray(targets)
    if predictions.shape != targets.shape or predictions.ndim != 1 or len(targets) < 2:
        raise ValueError(
            f"{predictions.shape} predictions for {targets.shape} targets; metrics "
            "need equally many of both, two or more"
        )
    values = {}
    for name in names:
        parts = [float(_METRICS[part](predictions, targets)) for part in MEANS.get(name, (name,))]
        values[name] = sum(parts) / len(parts)
    return values
