"""A run's predictions for a split beside the true answers: predictions-SPLIT.tsv."""

from typing import NamedTuple

from tupe_fairseq.files.atomic import atomic_write
from tupe_fairseq.finetune.answers import from_words, in_words
from tupe_fairseq.finetune.label_files import Answers, text_lines
from tupe_fairseq.finetune.task_folder import TaskData


class Predicted(NamedTuple):
    """Predictions and true answers, in the order of the rows.

    Args:
        predictions (array, or list of arrays): as :data:`Answers`.
        targets (the same, or None): None of a test set without labels.
    """

    predictions: Answers
    targets: Answers | None


def write_predictions(path: str, data: TaskData, predicted: Predicted) -> None:
    """Write a line for each row: the prediction, and the true answer if it is known."""
    columns = {"prediction": in_words(data.task, predicted.predictions)}
    if predicted.targets is not None:
        columns["target"] = in_words(data.task, predicted.targets)
    with atomic_write(path) as file:
        for row in (columns, *zip(*columns.values())):
            file.write("\t".join(row) + "\n")


def read_predictions(path: str, data: TaskData, split: str) -> Predicted:
    """Read what :func:`write_predictions` wrote; true answers come from the data.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is damaged, or not of this split.
    """
    targets = data.targets(split) if data.has_labels(split) else None
    try:
        header, *lines = [line.split("\t") for line in text_lines(path)] or [[]]
        columns = ["prediction", *([] if targets is None else ["target"])]
        if header != columns or {len(line) for line in lines} != {len(columns)}:
            raise ValueError(f"its columns are not {', '.join(columns)}")
        predictions = from_words(data.task, [line[0] for line in lines])
        if len(predictions) != data.rows[split]:
            raise ValueError(f"it has {len(predictions)} rows for {data.rows[split]}")
    except ValueError as error:
        raise ValueError(f"{path} is damaged, or of other data: {error}") from error
    return Predicted(predictions, targets)
