"""The description of a task: what its rows have, what is predicted, and how that is measured."""

from dataclasses import asdict, dataclass
from typing import Any

CLASSIFICATION, REGRESSION, MULTILABEL, TAGGING = KINDS = (
    "classification",
    "regression",
    "multilabel",
    "tagging",
)

#: the shape of :meth:`Task.to_record`, for ``check_record``
RECORD = {
    "name": str,
    "kind": str,
    "labels": [str],
    "texts": int,
    "splits": [str],
    "metrics": [str],
    "selection": str,
    "epochs": int,
    "scale": ([float], None),
    "benchmark": str,
}


@dataclass(frozen=True)
class Task:
    """A task, as the report.json of its data folder describes it.

    Args:
        name (str): the name of the task, and of the folder of its runs.
        kind (str): one of :data:`KINDS`: a class, a score, any number of labels for each row; or a
            tag for each word.
        labels (tuple of str): classes, labels or tags as users spell them, in the order of the
            head's outputs; empty for a regression.
        texts (int): 1, or 2 for pairs.
        splits (tuple of str): train, valid, valid1, test, ...; the order is fairseq's numbering.
        metrics (tuple of str): what is reported, of :data:`tupe_fairseq.labelled.metrics.METRICS`.
        selection (str): the metric by which checkpoints are picked.
        epochs (int): passes over the training set, by default.
        scale (tuple of float, optional): the lowest and the highest score of a regression; it is
            trained on (score - lowest) / (highest - lowest).
        benchmark (str): GLUE, or empty for a task of one's own.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    texts: int
    splits: tuple[str, ...]
    metrics: tuple[str, ...]
    selection: str
    epochs: int = 10
    scale: tuple[float, float] | None = None
    benchmark: str = ""

    @property
    def is_pair(self) -> bool:
        return self.texts == 2

    @property
    def is_regression(self) -> bool:
        return self.kind == REGRESSION

    @property
    def num_classes(self) -> int:
        """The outputs of the head: 1 for a regression."""
        return len(self.labels) or 1

    def to_record(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Task":
        """The task of :meth:`to_record`, whose shape has been checked with :data:`RECORD`."""
        values = ((name, record[name]) for name in RECORD)
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values})
