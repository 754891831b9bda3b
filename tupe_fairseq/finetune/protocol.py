"""The whole protocol for one task: runs, tables, test sets, pictures."""

import logging
import os
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from tupe_fairseq.fairseq_runs.command import show
from tupe_fairseq.fairseq_runs.save_dir import BEST, LAST
from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.files.lock import locked
from tupe_fairseq.files.steps import keep_settings
from tupe_fairseq.files.vocabulary_files import copy_vocabulary, remove_vocabulary
from tupe_fairseq.finetune.baselines import baseline
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun
from tupe_fairseq.finetune.held_out import score_test_sets
from tupe_fairseq.finetune.overall import write_overall
from tupe_fairseq.finetune.pictures import draw_pictures
from tupe_fairseq.finetune.read_results import finished
from tupe_fairseq.finetune.scored_run import finetune
from tupe_fairseq.finetune.scores import Results, best_run
from tupe_fairseq.finetune.submit import submit
from tupe_fairseq.finetune.tables import percent
from tupe_fairseq.finetune.task_folder import TaskData
from tupe_fairseq.finetune.write_task import best_predictions, write_task

logger = logging.getLogger("tupe-finetune")

_TRAIN = "input0/train.bin"


def _others(data: TaskData) -> list[str]:
    """All files of the splits but one, whose hash 0.1.0 recorded under another name."""
    return [name for name in data.files() if name != _TRAIN]


def settings_of(experiment: Experiment) -> dict[str, Any]:
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
    """Make the unfinished runs, and write tables, predictions of the test sets, and pictures.

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
                best = _keep_best(experiment, results, keep_checkpoints)
                write_task(experiment, settings, results, best, constant)
        best = _keep_best(experiment, results, keep_checkpoints)
        table = write_task(experiment, settings, results, best, constant)
        if task.benchmark:
            submit(experiment, best)
        else:
            test = score_test_sets(experiment, best)
            table = write_task(experiment, settings, results, best, constant, test)
        draw_pictures(experiment, results, best, best_predictions(experiment, best))
        write_overall(root)
    return table


def _finetune(experiment: Experiment, run: FineTuningRun, bar: tqdm, lock) -> dict[str, Any]:
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


def _keep_best(
    experiment: Experiment, results: Results, keep_checkpoints: bool
) -> FineTuningRun | None:
    """Remove the checkpoints that are no longer needed, and the vocabularies beside them.

    Returns:
        FineTuningRun: the best run, None if all diverged.
    """
    results = dict(sorted(results.items()))
    best = best_run(results, experiment.data.task)
    for run in results:
        keeps_best = keep_checkpoints or run == best
        for name in (LAST, *(() if keeps_best else (BEST,))):
            if os.path.exists(experiment.path(run, name)):
                os.remove(experiment.path(run, name))
        if os.path.exists(experiment.path(run, BEST)):
            copy_vocabulary(experiment.data.folder, experiment.path(run))
        else:
            remove_vocabulary(experiment.path(run))
    return best
