"""Test predictions in the format of the official GLUE submission."""

import os
from collections.abc import Sequence

from tupe_fairseq.files.atomic import atomic_write
from tupe_fairseq.glue.glue_tasks import STSB_MAX_SCORE, GlueTask


def official_predictions(task: GlueTask, predictions: Sequence) -> list[str]:
    """Predictions in GLUE's format: labels, or scores from 0 to 5 with three decimals.

    Args:
        task (GlueTask): the task.
        predictions (sequence): a class index or a score (0 to 5, or beyond) for each row.
    """
    if task.is_regression:
        return [f"{min(max(float(p), 0.0), STSB_MAX_SCORE):.3f}" for p in predictions]
    return [task.labels[int(prediction)] for prediction in predictions]


def write_submission(
    folder: str, task: GlueTask, split: str, index: Sequence[str], predictions: Sequence
) -> str:
    """Write FOLDER/NAME.tsv for a test split; returns its path.

    Args:
        folder (str): made if missing.
        task (GlueTask): the task.
        split (str): test, or test1 for MNLI's mismatched one.
        index (sequence of str): the official index of each row.
        predictions (sequence): as for :func:`official_predictions`.
    Raises:
        ValueError: if there are not as many predictions as rows, or an index occurs twice.
    """
    if len(index) != len(predictions) or len(set(index)) != len(index):
        raise ValueError(
            f"{len(predictions)} predictions for {len(index)} rows of {task.name} {split} with "
            f"{len(set(index))} different indices; prepare the task again"
        )
    path = os.path.join(folder, task.submission(split))
    with atomic_write(path) as file:
        file.write("index\tprediction\n")
        for number, answer in zip(index, official_predictions(task, predictions)):
            file.write(f"{number}\t{answer}\n")
    return path
