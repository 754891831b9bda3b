"""Metrics; scikit-learn, scipy and seqeval are imported only where they are needed."""

import math
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

# BIO, IOB1, BIOES and BILOU
_ENTITY = re.compile(r"O|[BIESLU]-.+", re.DOTALL)


class Metric(NamedTuple):
    """A metric of targets and predictions, its name in tables, and the kinds of tasks for it.

    It is ``function``; or the mean of other metrics, ``parts``; or a ratio: ``sums`` gives a
    numerator and a denominator for each row, or for each row and class. Both are added up over the
    rows, and the ratio is averaged over the classes that occur.
    """

    label: str
    kinds: tuple[str, ...]
    function: Callable[[Any, Any], float] | None = None
    sums: Callable[[Any, Any], tuple[Any, Any]] | None = None  # each (rows) or (rows, classes)
    parts: tuple[str, ...] = ()
    is_binary: bool = False  # measures the second of two classes


def _correlation(name: str) -> Callable[[Any, Any], float]:
    def correlation(targets, predictions):
        from scipy import stats

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about constant predictions
            # scipy refuses a single row
            value = len(targets) > 1 and float(getattr(stats, name)(predictions, targets)[0])
        return value if math.isfinite(value) else 0.0

    return correlation


def _matthews(targets, predictions):
    from sklearn.metrics import matthews_corrcoef

    return matthews_corrcoef(targets, predictions)


def _right(targets, predictions):
    if isinstance(targets, list):  # the tags of the words of each row
        hits = [sum(a == b for a, b in zip(*rows)) for rows in zip(targets, predictions)]
        return hits, list(map(len, targets))
    return targets == predictions, [1] * len(targets)


def _f1(average: str) -> Callable[[Any, Any], tuple[Any, Any]]:
    def sums(targets, predictions):
        import numpy as np

        if targets.ndim == 1:
            classes = np.eye(1 + max(1, targets.max(initial=0), predictions.max(initial=0)))
            targets, predictions = classes[targets], classes[predictions]
        hits, both = 2.0 * targets * predictions, 0.0 + targets + predictions
        if average == "macro":
            return hits, both
        return tuple(x[:, 1] if average == "binary" else x.sum(axis=1) for x in (hits, both))

    return sums


def _as_bioes(tags: Sequence[str]) -> list[str]:
    """BILOU as BIOES, which seqeval knows: L (last word) becomes E, U (single word) becomes S."""
    prefixes = {"L": "E", "U": "S"}
    return [prefixes.get(tag[0], tag[0]) + tag[1:] for tag in tags]


def _entities(targets, predictions):
    from seqeval.metrics.sequence_labeling import get_entities

    sides = [[{*get_entities(_as_bioes(row))} for row in side] for side in (targets, predictions)]
    pairs = list(zip(*sides))
    return [2 * len(a & b) for a, b in pairs], [len(a) + len(b) for a, b in pairs]


#: entity_f1 is that of CoNLL's conlleval (seqeval's default mode): an entity is right if its type
#: and both ends are right, and I-x after another type begins an entity
METRICS = {
    "accuracy": Metric("accuracy", ("classification", "tagging"), sums=_right),
    "f1": Metric("F1", ("classification",), sums=_f1("binary"), is_binary=True),
    "macro_f1": Metric("macro F1", ("classification", "multilabel"), sums=_f1("macro")),
    "micro_f1": Metric("micro F1", ("multilabel",), sums=_f1("micro")),
    "mcc": Metric("Matthews", ("classification",), _matthews),
    "pearson": Metric("Pearson", ("regression",), _correlation("pearsonr")),
    "spearman": Metric("Spearman", ("regression",), _correlation("spearmanr")),
    "entity_f1": Metric("entity F1", ("tagging",), sums=_entities),
    "acc_and_f1": Metric(
        "mean of accuracy and F1", ("classification",), parts=("accuracy", "f1"), is_binary=True
    ),
    "pearson_and_spearman": Metric(
        "mean of Pearson and Spearman", ("regression",), parts=("pearson", "spearman")
    ),
}


def are_entities(tags: Iterable[str]) -> bool:
    """Whether all tags are O, or have a prefix of BIO, IOB1, BIOES or BILOU and a type."""
    return all(map(_ENTITY.fullmatch, tags))


def check_metrics(names: Sequence[str], kind: str, labels: Sequence[str], flag: str) -> None:
    """Refuse metrics that do not fit this kind of task or its labels."""
    fit = [name for name, metric in METRICS.items() if kind in metric.kinds]
    for name in names:
        if name not in fit:
            raise ValueError(f"{flag}: {name!r} is not a metric of {kind}; give {', '.join(fit)}")
        if METRICS[name].is_binary and len(labels) != 2:
            raise ValueError(
                f"{flag}: {name} measures the second of two classes, but there are {len(labels)}; "
                "use macro_f1"
            )
        if name == "entity_f1" and not are_entities(labels):
            other = next(tag for tag in labels if not are_entities([tag]))
            raise ValueError(
                f"{flag}: entity_f1 needs tags O, B-x, I-x (or E-x, S-x, L-x, U-x), not {other!r}; "
                "use accuracy"
            )


def metrics_of_rows(
    names: Sequence[str], predictions, targets
) -> dict[str, Callable[[Any], float]]:
    """Metrics, as fractions, each a function of row indices, which may repeat, or of a slice.

    An undefined correlation or F1 counts as 0.

    Args:
        predictions, targets: a class index or a score for each row; for multilabel bool (N, C); for
            tagging a list of tags for each row.
    """
    import numpy as np

    if len(targets) and isinstance(targets[0], list):
        predictions, targets = list(predictions), list(targets)
    else:
        predictions, targets = np.asarray(predictions), np.asarray(targets)

    def of_rows(name: str) -> Callable[[Any], float]:
        _, _, function, sums, parts, _ = METRICS[name]
        if parts:
            functions = list(map(of_rows, parts))
            return lambda rows: sum(one(rows) for one in functions) / len(functions)
        if sums is None:
            return lambda rows: float(function(targets[rows], predictions[rows]))
        both = np.stack([np.asarray(x, np.float64) for x in sums(targets, predictions)], axis=1)

        def value(rows) -> float:
            counts = np.bincount(np.arange(len(both))[rows], minlength=len(both))
            above, below = map(np.atleast_1d, np.tensordot(counts, both, 1))
            occurs = below > 0
            return float((above[occurs] / below[occurs]).mean()) if occurs.any() else 0.0

        return value

    return {name: of_rows(name) for name in names}


def task_metrics(names: Sequence[str], predictions, targets) -> dict[str, float]:
    """The metrics over all rows, see :func:`metrics_of_rows`."""
    functions = metrics_of_rows(names, predictions, targets)
    return {name: function(slice(None)) for name, function in functions.items()}


def class_scores(labels: Sequence[str], predictions, targets) -> list[dict[str, Any]]:
    """Precision, recall, F1 (0 if undefined) and support of each class.

    Shape: predictions, targets int (N,) classes, or bool (N, C).
    """
    from sklearn.metrics import precision_recall_fscore_support

    numbers = range(len(labels))
    scores = precision_recall_fscore_support(targets, predictions, labels=numbers, zero_division=0)
    names = ("label", "precision", "recall", "f1", "support")
    return [dict(zip(names, row)) for row in zip(labels, *(x.tolist() for x in scores))]
