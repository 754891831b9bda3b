"""The whole protocol for a task: the grid of runs, the best one, test sets, tables, figures."""

import importlib.util
import logging
import os
from collections.abc import Sequence
from typing import Any

from tupe_fairseq.data.glue import GLUE_TASKS, write_submission
from tupe_fairseq.data.tokenizer import remove_vocabulary
from tupe_fairseq.files import output_folder, write_json
from tupe_fairseq.finetune import report
from tupe_fairseq.finetune.command import Experiment, Run
from tupe_fairseq.finetune.folds import write_folds
from tupe_fairseq.finetune.run import complete_outputs, finetune, has_outputs, predictions, vote
from tupe_fairseq.finetune.scoring import (
    Results,
    baseline,
    best_rate,
    best_run,
    by_learning_rate,
)
from tupe_fairseq.runs.grid import run_grid
from tupe_fairseq.runs.process import BEST, remove_checkpoints
from tupe_fairseq.runs.study import finished

logger = logging.getLogger("tupe-finetune")


class _Study:
    """The runs of a task, or of a fold of it."""

    def __init__(self, experiment: Experiment, settings: dict[str, Any], keep_checkpoints: bool):
        self.experiment, self.settings, self.keeps = experiment, settings, keep_checkpoints
        self.constant, self.results = baseline(experiment.data), _finished(experiment)

    def add(self, run: Run, result: dict[str, Any]) -> None:
        """A run has ended."""
        task = self.experiment.data.task
        self.results[run] = result
        if result["diverged"] is None:
            score = report.percent(result["metrics"]["valid"][task.selection])
            logger.info("%s: %s %s", run, task.selection, score)
        self._remove_checkpoints()
        self.write()

    def write(self, tests: report.Tests | None = None) -> str:
        """Write the tables; that of the task."""
        own = self.experiment, self.settings, self.results, self.constant
        return report.write_task(*own, tests)

    def finish(self, device: str) -> report.Tests | None:
        """Score the test sets, which GLUE's server does for its own; None if all runs diverged."""
        self._remove_checkpoints()
        best = best_run(self.results, self.experiment.data.task)
        if best is None:
            name = " ".join(filter(None, [self.experiment.data.task.name, self.experiment.fold]))
            logger.warning("every run of %s diverged, so there are no predictions", name)
            return None
        return _predict_test_sets(self.experiment, self.results, best, device)

    def _remove_checkpoints(self) -> None:
        """Of finished runs keep the best run's best checkpoint, and the vocabulary beside it."""
        experiment = self.experiment
        best = best_run(self.results, experiment.data.task)
        for run in self.results:
            is_kept = self.keeps or (run == best and not experiment.fold)
            remove_checkpoints(run.folder, keep=BEST if is_kept else "")
            if not os.path.exists(run.path(BEST)):
                remove_vocabulary(run.folder)
        if best is not None and not experiment.fold:  # the link "best" to its folder
            link = os.path.join(experiment.folder, "best")
            if os.path.lexists(link):
                os.remove(link)
            os.symlink(best.name, link)


def run_protocol(
    folder: str,
    experiments: Sequence[Experiment],
    runs: Sequence[Run],
    devices: Sequence[str],
    parallel: int | None = None,
    keep_checkpoints: bool = False,
) -> tuple[str, dict[Run, Exception]]:
    """Make the unfinished runs and write everything; the task's table, and the runs that failed.

    Finished runs of other grids are in the tables, too.

    Args:
        folder: RUNS/TASK.
        experiments: that of the task, or those of its folds.
        keep_checkpoints: each run's best.
    """
    first, settings = experiments[0], settings_of(experiments)
    with output_folder(folder, "settings.json", settings) as output:
        write_json(os.path.join(folder, "settings.json"), settings)
        studies = {one: _Study(one, settings, keep_checkpoints) for one in experiments}
        if first.ensemble:
            known = ((run, studies[run.experiment].results.get(run) or {}) for run in runs)
            complete_outputs([run for run, of in known if of.get("metrics")], devices[0])
        name = first.data.task.name
        logger.info("%s: command.sh and train.log of each run: %s/", name, folder)
        failed = run_grid(
            runs, finetune, devices, parallel, threads=first.threads, lock=output.lock,
            updates=first.updates,
            is_finished=lambda run: run in studies[run.experiment].results,
            on_result=lambda run, result: studies[run.experiment].add(run, result),
        )  # fmt: skip
        found = {one: study.finish(devices[0]) for one, study in studies.items() if study.results}
        if not found:
            return "", failed
        results = {one: studies[one].results for one in found}
        best = {one: best_run(results[one], one.data.task) for one in found}
        missing = [one.fold for one in experiments if best.get(one) is None]
        tables = [studies[one].write(tests) for one, tests in found.items()]
        if not first.fold:
            table = tables[0]
        elif missing:
            logger.warning("%s: no run has ended well, so there is no score", ", ".join(missing))
            table = ""
        else:
            table = write_folds(folder, settings, results, found)
        if importlib.util.find_spec("matplotlib") is None:
            logger.warning("no figures: matplotlib is not installed")
        else:
            from tupe_fairseq.finetune.figures import draw_figures

            draw_figures(folder, results, {} if missing else best)
        report.write_overall(os.path.dirname(folder))
    return table, failed


def settings_of(experiments: Sequence[Experiment]) -> dict[str, Any]:
    """All that the scores depend on."""
    first = experiments[0]
    files = {
        os.path.join(one.fold, name): one.data.sha256(name)
        for one in experiments
        for name in one.data.files
    }
    return {
        "task": first.data.task.name,
        "checkpoint": first.model.identity,
        "vocabulary": first.data.vocabulary,
        "rows": first.data.rows,
        **files,
        **vars(first.settings),
    }


def _finished(experiment: Experiment) -> Results:
    """The result.json of each finished run of any grid."""
    found = finished(experiment.folder, "lr*-seed*")
    runs = {path: Run(float(one["lr"]), one["seed"], experiment) for path, one in found.items()}
    return {run: found[path] for path, run in runs.items() if run.folder == path}


def _predict_test_sets(
    experiment: Experiment, results: Results, best: Run, device: str
) -> report.Tests:
    """Predict the test sets by the best run, GLUE's in the server's format, and score the others.

    Also by each seed of the best rate; an ensemble of these votes on the development sets, too.
    """
    data, task = experiment.data, experiment.data.task
    rate = best_rate(by_learning_rate(results, task), task)["lr"]
    seeds = [run for run in sorted(results) if run.lr_text == rate and results[run]["metrics"]]
    voters = [run for run in seeds if has_outputs(run)] if experiment.ensemble else []
    if experiment.ensemble and len(voters) < 2:
        logger.warning("%s: no vote, because at rate %s one seed has ended well", best, rate)
        voters = []
    tests = report.Tests([run.seed for run in voters])
    for split in data.splits("valid") if voters else ():
        tests.votes[split] = vote(voters, split)
    submission = os.path.join(os.path.dirname(experiment.folder), "submission")
    for split in data.splits("test"):
        if not data.can_be_predicted(split):
            logger.warning("%s has no tags, so only tupe-predict knows its words", split)
            continue
        predicted, path = predictions(best, split, device), best.path(f"predictions-{split}.tsv")
        if voters:
            tests.votes[split] = predicted = vote(voters, split)
            path = os.path.join(experiment.folder, f"predictions-{split}.tsv")
        if task.benchmark:
            path = write_submission(
                submission, GLUE_TASKS[task.name], split, data.index(split), predicted.predictions
            )
        elif predicted.targets is not None:
            tests.best[split] = predictions(best, split)
            paths = {run: run.path(f"predictions-{split}.tsv") for run in seeds}
            known = [run for run in seeds if os.path.exists(paths[run])]
            tests.seeds[split] = {run.seed: predictions(run, split) for run in known}
        logger.info("%s has the predictions of %s", path, "the vote" if voters else best.name)
    return tests
