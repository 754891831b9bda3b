"""The pictures beside a task's results.md."""

import importlib.util
import logging
from typing import Any

import numpy as np

from tupe_fairseq.finetune.answers import flat
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun
from tupe_fairseq.finetune.learning_curve import read_curve
from tupe_fairseq.finetune.prediction_file import Predicted
from tupe_fairseq.finetune.scores import Results
from tupe_fairseq.finetune.tables import metric_in_words
from tupe_fairseq.labelled.class_scores import class_scores, most_frequent
from tupe_fairseq.labelled.task_description import CLASSIFICATION, TAGGING, Task

logger = logging.getLogger("tupe-finetune")


def class_table(task: Task, predicted: Predicted | None) -> list[dict[str, Any]]:
    """:func:`class_scores` of the best run's predictions; empty for scores, or without any."""
    if predicted is None or task.is_regression:
        return []
    return class_scores(task.labels, flat(predicted.predictions), flat(predicted.targets))


def draw_pictures(
    experiment: Experiment,
    results: Results,
    best: FineTuningRun | None,
    predicted: Predicted | None,
) -> None:
    """Write what there is to see as PNG files; without matplotlib only say so.

    Args:
        experiment (Experiment): what was trained on what.
        results (dict): the finished runs.
        best (FineTuningRun or None): None if all diverged.
        predicted (Predicted or None): the best run's, of the main development set.
    """
    task = experiment.data.task
    curves = {
        run.name: read_curve(experiment.path(run, "train.log"), task.selection)
        for run in sorted(results)
    }
    curves = {name: curve for name, curve in curves.items() if curve}
    if not curves and predicted is None:
        return
    if importlib.util.find_spec("matplotlib") is None:
        logger.warning("no pictures: matplotlib is not installed")
        return
    # only here: it is not needed for training
    from tupe_fairseq.plots import class_bars, confusion_matrix, learning_curves, score_scatter
    from tupe_fairseq.plots.canvas import save_png

    figures = {}
    title = f"{task.name}, development set" + ("" if best is None else f", {best.name}")
    if curves:
        figures["learning_curves"] = learning_curves.draw(
            curves, None if best is None else best.name, metric_in_words(task.selection), task.name
        )
    if predicted is not None and task.is_regression:
        figures["scatter"] = score_scatter.draw(*predicted, title)
    elif predicted is not None:
        classes = class_table(task, predicted)
        shown = most_frequent(classes)
        if len(shown) < len(classes):
            title += f"\n(the {len(shown)} most frequent of {len(classes)} classes)"
        figures["classes"] = class_bars.draw(shown, title)
        if task.kind in (CLASSIFICATION, TAGGING):
            counts = confusions(task, predicted, [one["label"] for one in shown])
            figures["confusion"] = confusion_matrix.draw(*counts, title)
    for name, figure in figures.items():
        save_png(figure, f"{experiment.folder}/{name}.png", dpi=130)
    logger.info("%s: %s", experiment.folder, ", ".join(f"{name}.png" for name in figures))


def confusions(task: Task, predicted: Predicted, labels: list[str]) -> tuple[np.ndarray, list[str]]:
    """How often each of some classes is predicted for each of them.

    Args:
        labels (list of str): the classes to count.
    Returns:
        tuple: int64 (C, C), the true class first; and the labels.
    """
    pairs = flat(predicted.targets) * task.num_classes + flat(predicted.predictions)
    counts = np.bincount(pairs, minlength=task.num_classes**2)
    numbers = [task.labels.index(label) for label in labels]
    whole = counts.reshape(task.num_classes, task.num_classes)
    return whole[np.ix_(numbers, numbers)], labels
