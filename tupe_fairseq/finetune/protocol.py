"""The whole protocol for a task: the grid of runs, the best one, test sets, tables, figures."""

import logging
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from tupe_fairseq.checkpoint.checkpoint import loading, symbols_of
from tupe_fairseq.checkpoint.fit import check_vocabulary
from tupe_fairseq.checkpoint.model import Model
from tupe_fairseq.data.dictionary import DICTIONARY
from tupe_fairseq.data.metrics import METRICS
from tupe_fairseq.data.text_files import read_lines
from tupe_fairseq.data.tokenizer import copy_vocabulary
from tupe_fairseq.files import file_sha256
from tupe_fairseq.finetune.experiment import Experiment
from tupe_fairseq.finetune.fine_tuning import FineTuning, predictions
from tupe_fairseq.finetune.folds import write_folds
from tupe_fairseq.finetune.results import (
    Results,
    Tested,
    best_run,
    by_learning_rate,
    write_overall,
    write_task,
)
from tupe_fairseq.labelled.glue import GLUE_TASKS, write_submission
from tupe_fairseq.labelled.task_folder import TaskData
from tupe_fairseq.results.page import percent
from tupe_fairseq.results.scores import baseline
from tupe_fairseq.runs.process import BEST, remove_checkpoints
from tupe_fairseq.runs.study import Study, finished

logger = logging.getLogger("tupe-finetune")


def check_data(data: TaskData, model: Model) -> None:
    """Refuse data with another vocabulary than the model's."""
    path = os.path.join(data.folder, "input0", DICTIONARY)
    again = "prepare the task again with --vocabulary, the folder or data of the checkpoint"
    with loading(model.path):
        check_vocabulary(model.vocabulary, symbols_of(read_lines(path)), path, again)


class TaskStudy(Study):
    """The runs of a task, or of its folds, in RUNS/TASK.

    Finished runs of other grids are in its tables, too.
    """

    runs: Sequence[FineTuning]

    def __init__(self, runs: Sequence[FineTuning]):
        """``runs`` are of the task, or of its folds."""
        self.experiments = list(dict.fromkeys(run.experiment for run in runs))
        self.task = self.experiments[0].data.task
        super().__init__(os.path.join(runs[0].options.output_dir, self.task.name), runs)

    @cached_property
    def record(self) -> dict[str, Any]:
        first = self.experiments[0]
        path = first.checkpoint
        files = {
            os.path.join(one.fold, name): one.data.sha256(name)
            for one in self.experiments
            for name in one.data.files
        }
        return {
            "task": self.task.name,
            "checkpoint": {
                "name": os.path.basename(path),
                "bytes": os.path.getsize(path),
                "sha256": file_sha256(path),
            },
            "vocabulary": first.data.vocabulary,
            "rows": first.data.rows,
            **files,
            **first.options.settings(),
            "class_weights": first.class_weights,
        }

    def train_and_report(self) -> str:
        from tupe_fairseq.finetune.figures import draw_figures

        task, settings = self.task, self.record
        results = {one: _finished(one) for one in self.experiments}
        baselines = {one: baseline(one.data) for one in self.experiments}

        def add(run: FineTuning, result: dict[str, Any]) -> None:
            own = run.experiment
            results[own][run] = result
            if result["diverged"] is None:
                score = percent(result["metrics"]["valid"][task.selection])
                logger.info("%s: valid %s %s%%", run, METRICS[task.selection].label, score)
            _remove_checkpoints(own, results[own], self.options.keep_checkpoints)
            if not own.fold:
                write_task(own, settings, results[own], baselines[own])

        self.train_all(self.runs, add)
        results = {one: of for one, of in results.items() if of}
        finals, page = {}, ""
        for one, of in results.items():
            _remove_checkpoints(one, of, self.options.keep_checkpoints)
            tested = _test(one, of, self.options.devices[0])
            if not one.fold:
                page = write_task(one, settings, of, baselines[one], tested or {})
            finals |= {} if tested is None else {one: tested}
        is_whole = len(finals) == len(self.experiments)
        if self.experiments[0].fold:
            page = write_folds(self.folder, settings, results, finals) if is_whole else ""
            missing = ", ".join(one.fold for one in self.experiments if one not in finals)
            if missing:
                logger.warning("%s: every run failed or diverged, so there is no score", missing)
        if results:
            best = {one: best_run(of, task) for one, of in results.items()} if is_whole else {}
            draw_figures(self.folder, results, best, baselines)
        write_overall(os.path.dirname(self.folder))
        return page


def _finished(experiment: Experiment) -> Results:
    """The result.json of each finished run, of this grid and of others."""
    found = finished(experiment.folder, "lr*-seed*")
    runs = {
        path: FineTuning(float(one["lr"]), one["seed"], experiment) for path, one in found.items()
    }
    return {run: found[path] for path, run in runs.items() if run.folder == path}


def _remove_checkpoints(experiment: Experiment, results: Results, keeps: bool) -> None:
    """Of all finished runs, keep only the best run's best checkpoint, and give it a vocabulary."""
    best = best_run(results, experiment.data.task)
    for run in results:
        is_kept = keeps or (run == best and not experiment.fold)
        remove_checkpoints(run.folder, keep=BEST if is_kept else "")
        if os.path.exists(run.path(BEST)):
            copy_vocabulary(experiment.data.folder, run.folder)
    if best is not None and not experiment.fold:
        link = os.path.join(experiment.folder, "best")
        if os.path.lexists(link):
            os.remove(link)
        try:
            os.symlink(best.name, link)
        except OSError as error:  # some disks have no links
            logger.warning("no link best to %s, the best run: %s", best.name, error)


def _test(experiment: Experiment, results: Results, device: str) -> dict[str, Tested] | None:
    """Predict the test sets with the best run, GLUE's in the server's format; None if all diverged.

    Collects each seed's predictions at the best rate, too.
    """
    data, task = experiment.data, experiment.data.task
    best = best_run(results, task)
    if best is None:
        text = "every run of %s diverged, so there are no predictions"
        logger.warning(text, experiment.name)
        return None
    _, rate = by_learning_rate(results, task)
    at_rate = [run for run in sorted(results) if run.lr_text == rate["lr"]]
    seeds = [run for run in at_rate if results[run]["metrics"]]
    tested = {}
    for split in data.splits("test"):
        name = f"predictions-{split}.tsv"
        predicted, path = predictions(best, split, device), best.path(name)
        if not task.benchmark and predicted.targets is not None:
            known = (run for run in seeds if os.path.exists(run.path(name)))
            tested[split] = Tested(predicted, {run.seed: predictions(run, split) for run in known})
        if task.benchmark:
            folder = os.path.join(os.path.dirname(experiment.folder), "submission")
            numbers = data.index(split)
            task_of_glue = GLUE_TASKS[task.name]
            path = write_submission(folder, task_of_glue, split, numbers, predicted.predictions)
        logger.info("%s has the predictions of %s", path, best.name)
    return tested
