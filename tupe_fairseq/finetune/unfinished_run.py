"""What an interrupted run has left: to be gone on with, or made again."""

import logging
import math
import os

from tupe_fairseq.fairseq_runs.save_dir import (
    LAST,
    discard_damaged,
    remove_checkpoints,
    updates_of,
)
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun
from tupe_fairseq.finetune.learning_curve import read_curve

logger = logging.getLogger("tupe-finetune")


def keep_what_counts(experiment: Experiment, run: FineTuningRun) -> None:
    """Remove the checkpoints of an interrupted training that would end unlike an uninterrupted one.

    Args:
        experiment (Experiment): what is trained on what.
        run (FineTuningRun): its learning rate and seed; its folder is there.
    Raises:
        CheckpointError: if its last checkpoint does not say how many updates it has made.
    """
    folder, last = experiment.path(run), experiment.path(run, LAST)
    discard_damaged(folder)
    if not os.path.exists(last):
        return
    if experiment.settings.patience is not None:
        reason = "fairseq does not save for how many validations the score has not risen"
    elif not _is_logged(experiment, run, updates_of(last)):
        reason = "train.log lacks the end of an epoch that its checkpoint has"
    else:
        return
    logger.warning("%s begins afresh: %s", run.name, reason)
    remove_checkpoints(folder)


def _is_logged(experiment: Experiment, run: FineTuningRun, updates: int) -> bool:
    """Whether the log has score and loss of each epoch; fairseq logs the loss after it saves."""
    curve = read_curve(experiment.path(run, "train.log"), experiment.data.task.selection)
    done = updates // experiment.updates_per_epoch
    logged = [point["epoch"] for point in curve if not math.isnan(point["loss"])]
    return logged[:done] == list(range(1, done + 1))
