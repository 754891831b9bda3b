"""Test sets of one's own tasks: predicted, and scored if they have labels, by the best run."""

import logging
import os

from tupe_fairseq.fairseq_runs.save_dir import BEST
from tupe_fairseq.finetune.answers import measured
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun
from tupe_fairseq.finetune.prediction_file import Predicted, read_predictions, write_predictions
from tupe_fairseq.finetune.scored_run import predictions_of
from tupe_fairseq.finetune.selection import metric_names

logger = logging.getLogger("tupe-finetune")


def score_test_sets(
    experiment: Experiment, run: FineTuningRun | None
) -> dict[str, dict[str, float]]:
    """Predict the test sets with the best run, and write its predictions-SPLIT.tsv.

    Args:
        experiment (Experiment): a task of one's own.
        run (FineTuningRun or None): the best on the development set; None if all diverged.
    Returns:
        dict: the metrics of each test set with labels, as fractions.
    """
    data, scores = experiment.data, {}
    for split in data.splits("test") if run is not None else ():
        path = experiment.path(run, f"predictions-{split}.tsv")
        if not data.can_be_predicted(split):
            logger.warning("%s has no tags, so only tupe-predict knows its words", split)
            continue
        predicted = found_predictions(experiment, run, split)
        if predicted is None:
            if not os.path.exists(experiment.path(run, BEST)):
                logger.warning("%s is not predicted: %s/%s is gone", split, run.name, BEST)
                continue
            values = predictions_of(experiment, experiment.path(run, BEST), split)
            targets = data.targets(split) if data.has_labels(split) else None
            predicted = Predicted(values, targets)
            write_predictions(path, data, predicted)
        logger.info("%s has the predictions of %s", path, run.name)
        if predicted.targets is not None:
            scores[split] = measured(data.task, metric_names(data.task), *predicted)
    return scores


def found_predictions(experiment: Experiment, run: FineTuningRun, split: str) -> Predicted | None:
    """The predictions that a run has left; None, with a warning if they are damaged."""
    path = experiment.path(run, f"predictions-{split}.tsv")
    if not os.path.exists(path):
        return None
    try:
        return read_predictions(path, experiment.data, split)
    except ValueError as error:
        logger.warning("%s", error)
        return None
