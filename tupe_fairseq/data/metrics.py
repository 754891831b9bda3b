"""Metrics; numpy, scikit-learn and seqeval are imported only where they are needed."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

# BIO, IOB1, BIOES and BILOU
_ENTITY = re.compile(r"O|[BIESLU]-.+", re.DOTALL)


#: how often each row counts, float64 (rows), such as in a draw of a bootstrap
Counts = Any


class Metric(NamedTuple):
    """A metric and its name in tables; a kind of tasks lists those that fit.

    ``function`` of targets and predictions returns a function of ``Counts``, whose value is NaN if
    the metric is undefined. Without it, the metric is the mean of others, ``parts``.
    """

    label: str
    function: Callable[[Any, Any], Callable[[Counts], float]] | None = None
    parts: tuple[str, ...] = ()
    is_binary: bool = False  # measures the second of two classes
    lowest: float = 0.0  # of its range, which ends at 1


def _correlation(x, y, counts: Counts) -> float:
    """Pearson's correlation; NaN if a side is constant."""
    import numpy as np

    sides = []
    for side in (x, y):
        if np.ptp(side[counts > 0]) == 0:
            return math.nan
        deviation = np.sqrt(counts) * (side - (counts * side).sum() / counts.sum())
        sides.append(deviation / np.linalg.norm(deviation))
    return max(-1.0, min(1.0, float(sides[0] @ sides[1])))


def _pearson(targets, predictions):
    return lambda counts: _correlation(targets, predictions, counts)


def _spearman(targets, predictions):
    import numpy as np

    groups = [np.unique(side, return_inverse=True)[1] for side in (targets, predictions)]

    def value(counts: Counts) -> float:
        sizes = [np.bincount(group, counts) for group in groups]
        # equal values share the mean of their ranks
        ranks = [(n.cumsum() - (n - 1) / 2)[group] for n, group in zip(sizes, groups)]
        return _correlation(*ranks, counts)

    return value


def _matthews(targets, predictions):
    """The correlation of both sides' classes, 0 if undefined, as scikit-learn defines it."""
    import numpy as np

    classes = np.eye(1 + max(targets.max(), predictions.max()))
    sides, right = (classes[targets], classes[predictions]), 1.0 * (targets == predictions)

    def value(counts: Counts) -> float:
        rows, (x, y) = counts.sum(), (counts @ side for side in sides)
        below = math.sqrt((rows**2 - x @ x) * (rows**2 - y @ y))
        return float((counts @ right * rows - x @ y) / below) if below else 0.0

    return value


def _ratio(above, below, of_all: bool = True) -> Callable[[Counts], float]:
    """The ratio of two sums over the rows, 0 if undefined.

    With columns, (rows, C), it is the mean of all columns' ratios, or of the defined ones.
    """
    import numpy as np

    above, below = (np.asarray(x, np.float64).reshape(len(x), -1) for x in (above, below))

    def value(counts: Counts) -> float:
        sums, sizes = counts @ above, counts @ below
        known = sizes > 0
        number = len(sizes) if of_all else max(1, known.sum())
        return float((sums[known] / sizes[known]).sum() / number)

    return value


def _accuracy(targets, predictions):
    if isinstance(targets, list):  # the tags of the words of each row
        hits = [sum(a == b for a, b in zip(*rows)) for rows in zip(targets, predictions)]
        return _ratio(hits, list(map(len, targets)))
    return _ratio(targets == predictions, [1] * len(targets))


def _f1(average: str) -> Callable[[Any, Any], Callable[[Counts], float]]:
    """As scikit-learn's with zero_division=0: macro is the mean of the classes that occur, or of
    all labels of a multilabel task."""

    def function(targets, predictions):
        import numpy as np

        is_multilabel = targets.ndim == 2
        if not is_multilabel:
            classes = np.eye(1 + max(1, targets.max(), predictions.max()))
            targets, predictions = classes[targets], classes[predictions]
        sides = 2.0 * targets * predictions, 0.0 + targets + predictions
        if average == "macro":
            return _ratio(*sides, of_all=is_multilabel)
        return _ratio(*(x[:, 1] if average == "binary" else x.sum(axis=1) for x in sides))

    return function


def _as_bioes(tags: Sequence[str]) -> list[str]:
    """BILOU as BIOES, which seqeval knows: L (last word) becomes E, U (single word) becomes S."""
    prefixes = {"L": "E", "U": "S"}
    return [prefixes.get(tag[0], tag[0]) + tag[1:] for tag in tags]


def _entities(targets, predictions):
    from seqeval.metrics.sequence_labeling import get_entities

    sides = [[{*get_entities(_as_bioes(row))} for row in side] for side in (targets, predictions)]
    pairs = list(zip(*sides))
    return _ratio([2 * len(a & b) for a, b in pairs], [len(a) + len(b) for a, b in pairs])


#: entity_f1 is that of CoNLL's conlleval (seqeval's default mode): an entity is right if its type
#: and both ends are right, and I-x after another type begins an entity
METRICS = {
    "accuracy": Metric("accuracy", _accuracy),
    "f1": Metric("F1", _f1("binary"), is_binary=True),
    "macro_f1": Metric("macro F1", _f1("macro")),
    "micro_f1": Metric("micro F1", _f1("micro")),
    "mcc": Metric("Matthews", _matthews, lowest=-1.0),
    "pearson": Metric("Pearson", _pearson, lowest=-1.0),
    "spearman": Metric("Spearman", _spearman, lowest=-1.0),
    "entity_f1": Metric("entity F1", _entities),
    "acc_and_f1": Metric("mean of accuracy and F1", parts=("accuracy", "f1"), is_binary=True),
    "pearson_and_spearman": Metric(
        "mean of Pearson and Spearman", parts=("pearson", "spearman"), lowest=-1.0
    ),
}


def are_entities(tags: Iterable[str]) -> bool:
    """Whether all tags are O, or have a prefix of BIO, IOB1, BIOES or BILOU and a type."""
    return all(map(_ENTITY.fullmatch, tags))


def unfit(name: str, labels: Sequence[str]) -> str:
    """Why a metric does not fit these labels, or ""."""
    if METRICS[name].is_binary and len(labels) != 2:
        return f"measures the second of two classes, but there are {len(labels)}; use macro_f1"
    if name == "entity_f1" and not are_entities(labels):
        other = next(tag for tag in labels if not are_entities([tag]))
        return f"needs tags O, B-x, I-x (or E-x, S-x, L-x, U-x), not {other!r}; use accuracy"
    return ""


def check_metrics(names: Sequence[str], kind: Any, labels: Sequence[str], flag: str) -> None:
    """Refuse metrics that do not fit this kind of task or its labels."""
    for name in names:
        if name not in kind.metrics:
            fit = ", ".join(kind.metrics)
            raise ValueError(f"{flag}: {name!r} is not a metric of {kind.name}; give {fit}")
        if reason := unfit(name, labels):
            raise ValueError(f"{flag}: {name} {reason}")


def metrics_of_counts(
    names: Sequence[str], predictions, targets
) -> Callable[[Counts], dict[str, float]]:
    """A function that measures rows by how often each counts; an undefined correlation is NaN.

    Args:
        predictions, targets: a class index or a score for each row; for multilabel bool (N, C); for
            tagging a list of tags for each row.
    """
    import numpy as np

    if isinstance(targets[0], list):
        predictions, targets = list(predictions), list(targets)
    else:
        predictions, targets = np.asarray(predictions), np.asarray(targets)
    parts = {name: METRICS[name].parts or (name,) for name in names}
    functions = {
        part: METRICS[part].function(targets, predictions)
        for part in dict.fromkeys(sum(parts.values(), ()))
    }

    def measure(counts: Counts) -> dict[str, float]:
        values = {part: function(counts) for part, function in functions.items()}
        return {name: sum(values[x] for x in of) / len(of) for name, of in parts.items()}

    return measure


def task_metrics(names: Sequence[str], predictions, targets) -> dict[str, float]:
    """The metrics, as fractions, by which runs are compared: what is undefined counts as 0."""
    import numpy as np

    values = metrics_of_counts(names, predictions, targets)(np.ones(len(targets)))
    return {name: 0.0 if math.isnan(value) else value for name, value in values.items()}


def class_scores(labels: Sequence[str], predictions, targets) -> list[dict[str, Any]]:
    """Precision, recall, F1 (0 if undefined) and support of each class.

    A class that is neither a target nor predicted has None: it does not count in the macro F1.

    Shape: predictions, targets int (N,) classes, or bool (N, C).
    """
    from sklearn.metrics import precision_recall_fscore_support

    numbers = range(len(labels))
    scores = precision_recall_fscore_support(targets, predictions, labels=numbers, zero_division=0)
    names = ("label", "precision", "recall", "f1", "support")
    found = [dict(zip(names, row)) for row in zip(labels, *(x.tolist() for x in scores))]
    if targets.ndim == 1:
        for absent in {*numbers} - {*targets.tolist(), *predictions.tolist()}:
            found[absent] |= dict.fromkeys(names[1:4])
    return found
