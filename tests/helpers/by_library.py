"""Metrics by scipy, scikit-learn and seqeval alone."""

import numpy as np
from scipy import stats
from seqeval.metrics import f1_score as entity_f1
from sklearn import metrics


def metric(name, predictions, targets):
    """Of arrays, bool (rows, labels) for labels, or of lists of tags of each sentence."""
    if name in ("pearson", "spearman"):
        return getattr(stats, f"{name}r")(predictions, targets)[0]
    if name == "entity_f1":
        return entity_f1(targets, predictions)
    if isinstance(targets[0], list):
        predictions, targets = map(np.concatenate, (predictions, targets))
    if name == "accuracy":
        return metrics.accuracy_score(targets, predictions)
    if name == "mcc":
        return metrics.matthews_corrcoef(targets, predictions)
    if name == "f1":
        return metrics.f1_score(targets, predictions, pos_label=1)
    # macro F1 is the mean over the classes or labels that occur
    is_labels = np.ndim(targets) == 2
    occurs = np.flatnonzero((targets | predictions).any(axis=0)) if is_labels else None
    return metrics.f1_score(targets, predictions, average=name[:5], labels=occurs)
