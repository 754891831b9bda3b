"""Writes the results of a task, as far as its runs are finished."""

from typing import Any

from tupe_fairseq.files.results import write_results
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun
from tupe_fairseq.finetune.held_out import found_predictions
from tupe_fairseq.finetune.pictures import class_table
from tupe_fairseq.finetune.prediction_file import Predicted
from tupe_fairseq.finetune.scores import Results, task_results
from tupe_fairseq.finetune.tables import task_table


def write_task(
    experiment: Experiment,
    settings: dict[str, Any],
    results: Results,
    best: FineTuningRun | None,
    constant: dict[str, Any],
    test: dict[str, dict[str, float]] | None = None,
) -> str:
    """Write RUNS/TASK/results.json and results.md.

    Args:
        experiment (Experiment): what is trained on what.
        settings (dict): what all runs share.
        results (dict): the finished runs, one or more.
        best (FineTuningRun or None): None if all diverged.
        constant (dict): of :func:`tupe_fairseq.finetune.baselines.baseline`.
        test (dict, optional): the best run's metrics on the test sets of one's own task.
    Returns:
        str: the content of results.md.
    """
    task = experiment.data.task
    summary = task_results(task, settings, dict(sorted(results.items())), best, constant)
    if not task.benchmark:
        summary["description"] = task.to_record()
        summary["classes"] = class_table(task, best_predictions(experiment, best))
        summary["test"] = test or {}
    table = task_table(summary, task)
    write_results(experiment.folder, summary, table)
    return table


def best_predictions(experiment: Experiment, best: FineTuningRun | None) -> Predicted | None:
    """The best run's predictions of the main development set; None if there are none."""
    return None if best is None else found_predictions(experiment, best, "valid")
