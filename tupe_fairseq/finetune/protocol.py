"""The whole protocol for one task: runs, tables, submission."""

import logging
import os
import re
import sys
from typing import Any, Dict, List, Sequence

import numpy as np
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from tupe_fairseq.files.atomic import atomic_write, write_json
from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.files.lock import locked
from tupe_fairseq.files.steps import Steps
from tupe_fairseq.finetune.experiment import Experiment
from tupe_fairseq.finetune.grid import Run
from tupe_fairseq.finetune.one_run import finetune, free_disk
from tupe_fairseq.finetune.overall import write_overall
from tupe_fairseq.finetune.scores import baseline, best_run, summarize
from tupe_fairseq.finetune.tables import percent, task_table
from tupe_fairseq.glue.submission import write_submission
from tupe_fairseq.training.checkpoints import BEST
from tupe_fairseq.training.words import as_shell

logger = logging.getLogger("tupe-finetune")


def settings_of(experiment: Experiment) -> Dict[str, Any]:
    """What all runs of a folder share; a folder with others is refused."""
    options = experiment.options
    return {
        "task": experiment.data.task.name,
        "checkpoint": experiment.model.identity,
        "vocabulary": experiment.data.vocabulary,
        "rows": experiment.data.rows,
        "train": file_sha256(os.path.join(experiment.data.folder, "input0", "train.bin")),
        # the rows of an update depend on it; the CPU counts as one
        **{**vars(options), "gpus": max(1, options.gpus)},
    }


def run_protocol(experiment: Experiment, runs: Sequence[Run], keep_checkpoints: bool) -> str:
    """Make the runs that are not finished yet, and write tables and submission.

    Args:
        experiment (Experiment): what to train on what.
        runs (sequence of Run): the grid; finished runs of others count in the tables, too.
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
        # nothing but the settings: that a run is finished, its own result.json says
        Steps(experiment.folder, settings).finish("settings", True)
        constant = baseline(experiment.data)
        todo = [run for run in runs if experiment.result(run) is None]
        logger.info("%s: %d of %d runs are to do", task.name, len(todo), len(runs))
        with logging_redirect_tqdm(), tqdm(total=len(todo), unit="run", disable=None) as bar:
            for run in todo:
                echo(experiment, run)

                def show(epoch, score, run=run):
                    epochs = experiment.options.epochs
                    bar.set_postfix_str(f"{run.name} epoch {epoch}/{epochs}: {score:.1f}")

                bar.set_postfix_str(run.name)
                result = finetune(experiment, run, show, lock)
                if result["diverged"] is None:
                    score = percent(result["metrics"]["valid"][task.selection])
                    logger.info("%s: %s %s", run.name, task.selection, score)
                bar.update()
                _free_disk(experiment, keep_checkpoints)
                _write_tables(experiment, settings, constant)
        _free_disk(experiment, keep_checkpoints)
        table = _write_tables(experiment, settings, constant)
        _submit(experiment)
        write_overall(root)
    return table


def echo(experiment: Experiment, run: Run) -> None:
    """Show a run's command on the standard output, to be copied from there."""
    tqdm.write(f"# {experiment.data.task.name}, {run.name}", file=sys.stdout)
    tqdm.write(as_shell(experiment.command(run)) + "\n", file=sys.stdout)
    sys.stdout.flush()


def finished_runs(experiment: Experiment) -> List[Run]:
    """All finished runs of the folder, whatever grid they were in."""
    runs = []
    for name in sorted(os.listdir(experiment.folder)):
        found = re.fullmatch(r"lr(\d+(?:\.\d+)?(?:e[+-]?\d+)?)-seed(\d+)", name)
        run = found and Run(float(found.group(1)), int(found.group(2)))
        if run and run.name == name and experiment.result(run) is not None:
            runs.append(run)
    return runs


def _best(experiment: Experiment):
    results = {run: experiment.result(run) for run in finished_runs(experiment)}
    best = best_run(sorted(results.values(), key=lambda r: r["run"]), experiment.data.task)
    return next((run for run in results if best and run.name == best["run"]), None)


def _free_disk(experiment: Experiment, keep_checkpoints: bool) -> None:
    best = _best(experiment)
    for run in finished_runs(experiment):
        free_disk(experiment, run, keep_best=keep_checkpoints or run == best)


def _write_tables(experiment: Experiment, settings, constant) -> str:
    results = [experiment.result(run) for run in finished_runs(experiment)]
    summary = summarize(experiment.data.task, settings, results, constant)
    table = task_table(summary, experiment.data.task)
    write_json(os.path.join(experiment.folder, "results.json"), summary)
    with atomic_write(os.path.join(experiment.folder, "results.md")) as file:
        file.write(table)
    return table


def _submit(experiment: Experiment) -> None:
    """Predict the test sets with the best run, and write the official files."""
    run, task = _best(experiment), experiment.data.task
    splits = experiment.data.splits("test")
    if run is None or not splits:
        why = "every run diverged" if run is None else "the data have no test split"
        logger.warning("no submission for %s: %s", task.name, why)
        return
    for split in splits:
        path = experiment.path(run, f"predictions-{split}.npy")
        if not os.path.exists(path):
            if not os.path.exists(experiment.path(run, BEST)):
                logger.warning("no submission for %s: %s was removed", split, run.name + "/" + BEST)
                continue
            predictions = experiment.predict(experiment.path(run, BEST), split)
            with atomic_write(path, "wb") as file:
                np.save(file, predictions)
        folder = os.path.join(os.path.dirname(experiment.folder), "submission")
        index = experiment.data.test_index(split)
        written = write_submission(folder, task, split, index, np.load(path))
        logger.info("wrote %s with the predictions of %s", written, run.name)
