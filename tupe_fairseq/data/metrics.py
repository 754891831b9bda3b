"""Metrics by scikit-learn, scipy and seqeval, which are imported only where they are needed."""

import math
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tupe_fairseq.data.answers import answer_f1, exact_match, normalized
from tupe_fairseq.data.task import CLASSIFICATION, MULTILABEL, OF_CLASSES, QA, REGRESSION, TAGGING

# BIO, IOB1, BIOES and BILOU
_ENTITY = re.compile(r"O|[BIESLU]-.+", re.DOTALL)


class Metric(NamedTuple):
    """A metric of targets and predictions, and the kinds of tasks that it is for."""

    kinds: tuple[str, ...]
    function: Callable[[Any, Any], float]
    is_binary: bool = False  #: of the second of two classes


def _correlation(name: str) -> Callable[[Any, Any], float]:
    def correlation(targets, predictions):
        from scipy import stats

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of constant predictions
            # of one row scipy refuses it
            value = len(targets) > 1 and float(getattr(stats, name)(predictions, targets)[0])
        return value if math.isfinite(value) else 0.0

    return correlation


def _accuracy(targets, predictions):
    if isinstance(targets, list):  # tags, of the words of all rows
        hits = [a == b for rows in zip(targets, predictions) for a, b in zip(*rows)]
        return sum(hits) / max(1, len(hits))
    return (targets == predictions).mean()


def _f1(average: str) -> Callable[[Any, Any], float]:
    def f1(targets, predictions):
        import numpy as np
        from sklearn.metrics import f1_score

        if targets.ndim == 2:  # (N, C); macro: over the labels that occur
            axis = 0 if average == "macro" else None
            hits = np.atleast_1d((targets & predictions).sum(axis))
            of_both = np.atleast_1d(targets.sum(axis) + predictions.sum(axis))
            return (2 * hits[of_both > 0] / of_both[of_both > 0]).mean() if of_both.any() else 0
        return f1_score(targets, predictions, average=average, zero_division=0)

    return f1


def as_bioes(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    """Tags as seqeval knows them: in BILOU the last word of an entity is L and a single one U."""
    signs = {"L": "E", "U": "S"}
    return [[signs.get(tag[0], tag[0]) + tag[1:] for tag in row] for row in rows]


def _entity_f1(targets, predictions):
    from seqeval.metrics import f1_score

    return f1_score(as_bioes(targets), as_bioes(predictions), zero_division=0)


def _matthews(targets, predictions):
    from sklearn.metrics import matthews_corrcoef

    return matthews_corrcoef(targets, predictions)


def _mean(*functions) -> Callable[[Any, Any], float]:
    return lambda *sides: sum(float(function(*sides)) for function in functions) / len(functions)


def _of_answers(function: Callable[[str, str], float]) -> Callable[[Any, Any], float]:
    """The mean of the best value over the right answers of each question; "" stands for none."""

    def mean(targets, predictions):
        values = [
            max(function(one, prediction) for one in [*filter(normalized, answers)] or [""])
            for answers, prediction in zip(targets, predictions)
        ]
        return sum(values) / max(1, len(values))

    return mean


_PEARSON, _SPEARMAN = _correlation("pearsonr"), _correlation("spearmanr")

#: all by name; entity_f1 is that of CoNLL's conlleval (seqeval's default mode): an entity is found
#: if its type and both ends are right, and I-x after another type begins an entity
METRICS = {
    "accuracy": Metric((*OF_CLASSES, TAGGING), _accuracy),
    "f1": Metric((CLASSIFICATION,), _f1("binary"), is_binary=True),
    "macro_f1": Metric((CLASSIFICATION, MULTILABEL), _f1("macro")),
    "micro_f1": Metric((MULTILABEL,), _f1("micro")),
    "mcc": Metric((CLASSIFICATION,), _matthews),
    "pearson": Metric((REGRESSION,), _PEARSON),
    "spearman": Metric((REGRESSION,), _SPEARMAN),
    "entity_f1": Metric((TAGGING,), _entity_f1),
    "acc_and_f1": Metric((CLASSIFICATION,), _mean(_accuracy, _f1("binary")), is_binary=True),
    "exact_match": Metric((QA,), _of_answers(exact_match)),
    "answer_f1": Metric((QA,), _of_answers(answer_f1)),
    "pearson_and_spearman": Metric((REGRESSION,), _mean(_PEARSON, _SPEARMAN)),
}


def are_entities(tags: Iterable[str]) -> bool:
    """Whether all tags are O, or a sign of BIO, IOB1, BIOES or BILOU with a type."""
    return all(map(_ENTITY.fullmatch, tags))


def check_metrics(names: Sequence[str], kind: str, labels: Sequence[str], flag: str) -> None:
    """Refuse metrics that a task of this kind with these labels cannot have."""
    fit = [name for name, metric in METRICS.items() if kind in metric.kinds]
    for name in names:
        if name not in fit:
            raise ValueError(f"{flag}: {name!r} is not for {kind}, which has {', '.join(fit)}")
        if METRICS[name].is_binary and len(labels) != 2:
            raise ValueError(
                f"{flag}: {name} is of the second of two classes, and there are {len(labels)}; "
                "use macro_f1"
            )
        if name == "entity_f1" and not are_entities(labels):
            other = next(tag for tag in labels if not are_entities([tag]))
            raise ValueError(
                f"{flag}: entity_f1 needs tags O, B-x, I-x (or E-x, S-x, L-x, U-x), not {other!r}; "
                "use accuracy"
            )


def task_metrics(names: Sequence[str], predictions, targets) -> dict[str, float]:
    """Metrics as fractions; an undefined correlation or F1 counts as 0.

    Args:
        predictions, targets: a class index or a score for each row; for labels bool (N, C); for
            tags a list of tags for each row; for questions an answer, and a tuple of right ones.
    """
    import numpy as np

    if len(targets) and isinstance(targets[0], (list, tuple)):
        predictions, targets = list(predictions), list(targets)
        shapes = len(predictions), len(targets)
        if isinstance(targets[0], list):
            shapes = list(map(len, predictions)), list(map(len, targets))
    else:
        predictions, targets = np.asarray(predictions), np.asarray(targets)
        shapes = predictions.shape, targets.shape
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"{len(predictions)} predictions for {len(targets)} targets; metrics need equally many "
            "of both, also in each row"
        )
    return {name: float(METRICS[name].function(targets, predictions)) for name in names}


def class_scores(labels: Sequence[str], predictions, targets) -> list[dict[str, Any]]:
    """Precision, recall, F1 (0 if undefined) and support of each class.

    Args:
        predictions, targets: int (N,) classes, or bool (N, C).
    """
    import numpy as np

    if predictions.ndim == 1:
        predictions, targets = (x[:, None] == range(len(labels)) for x in (predictions, targets))
    hits, found, support = (x.sum(0) for x in (targets & predictions, predictions, targets))
    counts = {"precision": found, "recall": support, "f1": (found + support) / 2}
    scores = {name: (hits / np.maximum(x, 0.5)).tolist() for name, x in counts.items()}
    columns = [labels, *scores.values(), support.tolist()]
    return [dict(zip(("label", *scores, "support"), row)) for row in zip(*columns)]


def most_frequent(classes: list[dict[str, Any]], most: int = 30) -> list[dict[str, Any]]:
    """The ``most`` classes with the largest support, in their order."""
    order = sorted(range(len(classes)), key=lambda number: -classes[number]["support"])
    return [classes[number] for number in sorted(order[:most])]
