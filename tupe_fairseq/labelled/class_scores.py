"""Precision, recall and F1 of each class, by scikit-learn."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def class_scores(
    labels: Sequence[str], predictions: np.ndarray, targets: np.ndarray
) -> list[dict[str, Any]]:
    """What is found of each class, and how much of what is found is right.

    Args:
        labels (sequence of str): the classes, or the labels of which a row has any number.
        predictions (np.ndarray): int64 (N,) classes, or bool (N, C).
        targets (np.ndarray): the true ones, alike.
    Returns:
        list of dict: for each class its ``label``; ``precision``, ``recall`` and ``f1`` as
        fractions, 0 where they are undefined; and ``support``, its number among the targets.
    """
    # only here: it takes a second, and fairseq imports all files of this folder in every training
    from sklearn.metrics import precision_recall_fscore_support

    found = []
    for number, label in enumerate(labels):
        if predictions.ndim == 2:
            of_class = targets[:, number], predictions[:, number]
        else:
            of_class = targets == number, predictions == number
        values = precision_recall_fscore_support(*of_class, average="binary", zero_division=0)
        scores = dict(zip(("precision", "recall", "f1"), map(float, values[:3])))
        found.append({"label": label, **scores, "support": int(of_class[0].sum())})
    return found


def most_frequent(classes: list[dict[str, Any]], most: int = 30) -> list[dict[str, Any]]:
    """Those of :func:`class_scores` that a page can show: the most frequent ones, in their order.

    Args:
        classes (list of dict): with ``support``.
        most (int): how many at most; the first ones if tied.
    """
    order = sorted(range(len(classes)), key=lambda number: -classes[number]["support"])
    return [classes[number] for number in sorted(order[:most])]
