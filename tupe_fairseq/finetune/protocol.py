"""The whole protocol for one task: runs, tables, submission."""

import logging
import os
from typing import Any, Dict, List, Sequence

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.files.lock import locked
from tupe_fairseq.files.results import write_results
from tupe_fairseq.files.steps import keep_settings
from tupe_fairseq.finetune.beside_model import copy_beside, remove_beside
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun
from tupe_fairseq.finetune.read_results import finished, read_summary
from tupe_fairseq.finetune.scored_run import finetune
from tupe_fairseq.finetune.scores import (
    Results,
    baseline,
    best_run,
    overall_results,
    task_results,
)
from tupe_fairseq.finetune.submit import submit
from tupe_fairseq.finetune.tables import overall_table, percent, task_table
from tupe_fairseq.finetune.task_data import TaskData
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS
from tupe_fairseq.programs.command import show
from tupe_fairseq.programs.save_dir import BEST, LAST

logger = logging.getLogger("tupe-finetune")

_TRAIN = "input0/train.bin"


def _others(data: TaskData) -> List[str]:
    """All files of the splits but one, whose hash 0.1.0 recorded under another name."""
    return [name for name in data.files() if name != _TRAIN]


def settings_of(experiment: Experiment) -> Dict[str, Any]:
    """The settings that all runs of a folder share; a folder with other settings is refused."""
    settings = experiment.settings

    def sha256(name: str) -> str:
        return file_sha256(os.path.join(experiment.data.folder, name))

    return {
        "task": experiment.data.task.name,
        "checkpoint": experiment.model.identity,
        "vocabulary": experiment.data.vocabulary,
        "rows": experiment.data.rows,
        "train": sha256(_TRAIN),
        **{name: sha256(name) for name in _others(experiment.data)},
        # the rows of an update depend on it; the CPU counts as one
        **{**vars(settings), "gpus": max(1, settings.gpus)},
    }


def run_protocol(
    experiment: Experiment, runs: Sequence[FineTuningRun], keep_checkpoints: bool
) -> str:
    """Make the unfinished runs, and write tables and submission.

    Args:
        experiment (Experiment): what to train on what.
        runs (sequence of FineTuningRun): the grid; finished runs of other grids count in the
            tables, too.
        keep_checkpoints (bool): whether to keep each run's best checkpoint, not only the best
            run's.
    Returns:
        str: the task's table.
    Raises:
        ValueError: if the folder has other settings or is in use, or a run fails.
    """
    task, root = experiment.data.task, os.path.dirname(experiment.folder)
    os.makedirs(experiment.folder, exist_ok=True)
    with locked(experiment.folder) as lock:
        settings = settings_of(experiment)
        # 0.1.0 recorded no other hash than that of train's sentences
        keep_settings(experiment.folder, settings, since=_others(experiment.data))
        constant = baseline(experiment.data)
        results = finished(experiment)
        todo = [run for run in runs if run not in results]
        logger.info("%s: %d of %d runs left", task.name, len(todo), len(runs))
        with logging_redirect_tqdm(), tqdm(total=len(todo), unit="run", disable=None) as bar:
            for run in todo:
                show(experiment.script(run))
                results[run] = _finetune(experiment, run, bar, lock)
                _conclude(experiment, results, settings, constant, keep_checkpoints)
        best, table = _conclude(experiment, results, settings, constant, keep_checkpoints)
        submit(experiment, best)
        write_overall(root)
    return table


def _finetune(experiment: Experiment, run: FineTuningRun, bar: tqdm, lock) -> Dict[str, Any]:
    """Make one run, with its epochs and scores on the progress bar."""
    epochs = experiment.settings.epochs

    def show_score(epoch: int, score: float) -> None:
        bar.set_postfix_str(f"{run.name} epoch {epoch}/{epochs}: {score:.1f}")

    bar.set_postfix_str(run.name)
    result = finetune(experiment, run, show_score, lock)
    if result["diverged"] is None:
        metric = experiment.data.task.selection
        logger.info("%s: %s %s", run.name, metric, percent(result["metrics"]["valid"][metric]))
    bar.update()
    return result


def _conclude(experiment: Experiment, results: Results, settings, constant, keep_checkpoints):
    """Remove the checkpoints that are no longer needed, complete the others, write the tables.

    Returns:
        tuple: the best run, None if all diverged; and the text of results.md.
    """
    task, results = experiment.data.task, dict(sorted(results.items()))
    best = best_run(results, task)
    for run in results:
        keeps_best = keep_checkpoints or run == best
        for name in (LAST, *(() if keeps_best else (BEST,))):
            if os.path.exists(experiment.path(run, name)):
                os.remove(experiment.path(run, name))
        if os.path.exists(experiment.path(run, BEST)):
            copy_beside(experiment.data.folder, experiment.path(run))
        else:
            remove_beside(experiment.path(run))
    summary = task_results(task, settings, results, best, constant)
    table = task_table(summary, task)
    write_results(experiment.folder, summary, table)
    return best, table


def write_overall(runs_dir: str) -> None:
    """Write RUNS/results.md and RUNS/results.json from the results.json of the tasks in RUNS.

    Raises:
        ValueError: if one of them is damaged.
    """
    # another task may finish at the same time; who comes last reads the results of both
    with locked(runs_dir, wait=True):
        paths = {name: os.path.join(runs_dir, name, "results.json") for name in GLUE_TASKS}
        summaries = [
            read_summary(path, GLUE_TASKS[name])
            for name, path in paths.items()
            if os.path.exists(path)
        ]
        overall = overall_results(summaries)
        write_results(runs_dir, overall, overall_table(overall))
