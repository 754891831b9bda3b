"""Metrics of predictions, by scikit-learn, scipy and seqeval.

These take a second to import, so that each function does so itself: the names of the metrics are
needed without.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tupe_fairseq.labelled.task_description import CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING


class Metric(NamedTuple):
    """A metric.

    Args:
        kinds (tuple of str): the kinds of tasks that it is for.
        function (callable): of targets and predictions.
        is_binary (bool): whether it is of class 1 of two.
    """

    kinds: tuple[str, ...]
    function: Callable[[Any, Any], float]
    is_binary: bool = False


def _correlation(name: str) -> Callable[[Any, Any], float]:
    def correlation(targets, predictions) -> float:
        from scipy import stats

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # undefined for constant predictions; handled below
            value = float(getattr(stats, name)(predictions, targets)[0])
        return value if math.isfinite(value) else 0.0

    return correlation


def _accuracy(targets, predictions) -> float:
    if isinstance(targets, list):  # of tags: over the words of all rows
        hits = [a == b for rows in zip(targets, predictions) for a, b in zip(*rows)]
        return sum(hits) / max(1, len(hits))
    from sklearn.metrics import accuracy_score

    return accuracy_score(targets, predictions)


def _f1(average: str) -> Callable[[Any, Any], float]:
    def f1(targets, predictions) -> float:
        from sklearn.metrics import f1_score

        return f1_score(targets, predictions, average=average, zero_division=0)

    return f1


def _entity_f1(targets, predictions) -> float:
    from seqeval.metrics import f1_score

    return f1_score(targets, predictions, zero_division=0)


def _matthews(targets, predictions) -> float:
    from sklearn.metrics import matthews_corrcoef

    return matthews_corrcoef(targets, predictions)


def _mean(*functions) -> Callable[[Any, Any], float]:
    return lambda *sides: sum(float(function(*sides)) for function in functions) / len(functions)


_PEARSON, _SPEARMAN = _correlation("pearsonr"), _correlation("spearmanr")

#: all by name; entity_f1 is seqeval's in its default mode, that of CoNLL's conlleval: an entity
#: counts as found if its type and both ends are right, and I-x after another type begins one
METRICS = {
    "accuracy": Metric((CLASSIFICATION, TAGGING), _accuracy),
    "f1": Metric((CLASSIFICATION,), _f1("binary"), is_binary=True),
    "macro_f1": Metric((CLASSIFICATION, MULTILABEL), _f1("macro")),
    "micro_f1": Metric((MULTILABEL,), _f1("micro")),
    "mcc": Metric((CLASSIFICATION,), _matthews),
    "pearson": Metric((REGRESSION,), _PEARSON),
    "spearman": Metric((REGRESSION,), _SPEARMAN),
    "entity_f1": Metric((TAGGING,), _entity_f1),
    "acc_and_f1": Metric((CLASSIFICATION,), _mean(_accuracy, _f1("binary")), is_binary=True),
    "pearson_and_spearman": Metric((REGRESSION,), _mean(_PEARSON, _SPEARMAN)),
}


def check_metrics(names: Sequence[str], kind: str, labels: Sequence[str], flag: str) -> None:
    """Refuse metrics that a task cannot have.

    Args:
        names (sequence of str): as given.
        kind (str): one of :data:`tupe_fairseq.labelled.task_description.KINDS`.
        labels (sequence of str): classes, labels or tags; empty for a regression.
        flag (str): what gave the names, for messages.
    Raises:
        ValueError: if a name is unknown, or the metric is not for this kind of task; if it is of
            one class of two and there are not two; if it is of entities and the tags are not BIO.
    """
    fit = [name for name, metric in METRICS.items() if kind in metric.kinds]
    for name in names:
        if name not in fit:
            known = "is not for this kind of task" if name in METRICS else "is unknown"
            raise ValueError(f"{flag}: {name!r} {known}; for {kind} there are {', '.join(fit)}")
        if METRICS[name].is_binary and len(labels) != 2:
            raise ValueError(
                f"{flag}: {name} is of the second of two classes, and there are {len(labels)}; "
                "use macro_f1"
            )
        if name == "entity_f1" and not are_bio(labels):
            other = next(tag for tag in labels if not are_bio([tag]))
            raise ValueError(
                f"{flag}: entity_f1 needs tags O, B-... and I-..., and {other!r} is none of them; "
                "use accuracy"
            )


def are_bio(tags: Sequence[str]) -> bool:
    """Whether all tags are O, B-type or I-type."""
    return all(tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2) for tag in tags)


def task_metrics(names: Sequence[str], predictions, targets) -> dict[str, float]:
    """Compute metrics; each is a fraction, not a percentage.

    A correlation with constant predictions is undefined; it counts as 0, as Matthews' does, and as
    does an F1 without anything to find.

    Args:
        names (sequence of str): keys of :data:`METRICS`, of which f1 is that of class 1.
        predictions (sequence): a class index or a score for each row; for labels bool (N, C); for
            tags a list of tags for each row.
        targets (sequence): the true ones.
    Raises:
        ValueError: if the two differ in length, also in one row, or are shorter than 2; if there
            is no such metric.
    """
    for name in names:
        if name not in METRICS:
            raise ValueError(f"there is no metric {name!r}; there are {', '.join(METRICS)}")
    predictions, targets = _checked(predictions, targets)
    return {name: float(METRICS[name].function(targets, predictions)) for name in names}


def _checked(predictions, targets):
    """The two as arrays, or tags as lists of lists; refused if they do not fit together."""
    import numpy as np

    are_tags = len(targets) > 0 and all(isinstance(row, list) for row in targets)
    if are_tags:
        predictions, targets = list(predictions), list(targets)
        shapes = (len(predictions),), (len(targets),)
    else:
        predictions, targets = np.asarray(predictions), np.asarray(targets)
        shapes = predictions.shape, targets.shape
    is_matrix = len(shapes[1]) == 2 and targets.dtype == bool
    if shapes[0] != shapes[1] or len(targets) < 2 or not (len(shapes[1]) == 1 or is_matrix):
        raise ValueError(
            f"{shapes[0]} predictions for {shapes[1]} targets; metrics "
            "need equally many of both, two or more"
        )
    for number, (row, target) in enumerate(zip(predictions, targets) if are_tags else (), start=1):
        if len(row) != len(target):
            raise ValueError(
                f"row {number} has {len(row)} predicted tags for {len(target)} words; metrics need "
                "equally many of both"
            )
    return predictions, targets
