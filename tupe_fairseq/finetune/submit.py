"""The submission of a GLUE task: its test sets, predicted by the best run."""

import logging
import os

import numpy as np

from tupe_fairseq.fairseq_runs.save_dir import BEST
from tupe_fairseq.files.atomic import atomic_write
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun
from tupe_fairseq.finetune.scored_run import predictions_of
from tupe_fairseq.glue.glue_tasks import GlueTask, task_named
from tupe_fairseq.glue.submission import write_submission

logger = logging.getLogger("tupe-finetune")


def submit(experiment: Experiment, run: FineTuningRun | None) -> None:
    """Predict the test sets of a GLUE task with the best run, and write the official files."""
    task, splits = task_named(experiment.data.task.name), experiment.data.splits("test")
    if run is None or not splits:
        why = "every run diverged" if run is None else "the data has no test split"
        logger.warning("no submission for %s: %s", task.name, why)
        return
    for split in splits:
        path = experiment.path(run, f"predictions-{split}.npy")
        predictions = _saved_predictions(path, task, experiment.data.rows[split])
        if predictions is None:
            if not os.path.exists(experiment.path(run, BEST)):
                lost = run.name + "/" + BEST
                logger.warning("no submission for %s: %s no longer exists", split, lost)
                continue
            predictions = predictions_of(experiment, experiment.path(run, BEST), split)
            with atomic_write(path, "wb") as file:
                np.save(file, predictions)
        folder = os.path.join(os.path.dirname(experiment.folder), "submission")
        index = experiment.data.test_index(split)
        written = write_submission(folder, task, split, index, predictions)
        logger.info("wrote %s with the predictions of %s", written, run.name)


def _saved_predictions(path: str, task: GlueTask, rows: int) -> np.ndarray | None:
    """The predictions in a file; None if there is none, or it is damaged."""
    if not os.path.exists(path):
        return None
    try:
        found = np.load(path, allow_pickle=False)
        if task.is_regression:
            fine = found.dtype.kind == "f" and np.isfinite(found)
        else:
            fine = found.dtype.kind == "i" and (0 <= found) & (found < task.num_classes)
        if found.shape == (rows,) and np.all(fine):
            return found
    except Exception as error:  # a damaged file can raise anything
        logger.debug("%s: %s", path, error)
    logger.warning("%s does not hold predictions for %d rows of %s", path, rows, task.name)
    return None
