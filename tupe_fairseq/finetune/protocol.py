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
from tupe_fairseq.finetune.run import finetune, predictions
from tupe_fairseq.finetune.scoring import Results, baseline, best_run, measure
from tupe_fairseq.runs.grid import run_grid
from tupe_fairseq.runs.process import BEST, remove_checkpoints
from tupe_fairseq.runs.study import finished

logger = logging.getLogger("tupe-finetune")


def run_protocol(
    experiment: Experiment,
    runs: Sequence[Run],
    devices: Sequence[str],
    parallel: int | None = None,
    keep_checkpoints: bool = False,
) -> tuple[str, dict[Run, Exception]]:
    """Make the unfinished runs and write everything; the task's table, and the runs that failed.

    Finished runs of other grids are in the tables, too. ``keep_checkpoints``: each run's best.
    """
    data, task, folder = experiment.data, experiment.data.task, experiment.folder
    settings = settings_of(experiment)
    with output_folder(folder, "settings.json", settings) as output:
        write_json(os.path.join(folder, "settings.json"), settings)
        constant, results = baseline(data), _finished(experiment)
        logger.info("%s: command.sh and train.log of each run: %s/", task.name, folder)

        def on_result(run: Run, result: dict[str, Any]) -> None:
            results[run] = result
            if result["diverged"] is None:
                score = report.percent(result["metrics"]["valid"][task.selection])
                logger.info("%s: %s %s", run, task.selection, score)
            _remove_checkpoints(experiment, results, keep_checkpoints)
            report.write_task(experiment, settings, results, constant)

        failed = run_grid(
            runs, finetune, devices, parallel, threads=experiment.threads, lock=output.lock,
            updates=experiment.updates, is_finished=results.__contains__, on_result=on_result,
        )  # fmt: skip
        if not results:
            return "", failed
        _remove_checkpoints(experiment, results, keep_checkpoints)
        best, test = best_run(results, task), {}
        if best is None:
            logger.warning("every run of %s diverged, so there are no predictions", task.name)
        else:
            test = _predict_test_sets(experiment, best, devices[0])
        table = report.write_task(experiment, settings, results, constant, test)
        if importlib.util.find_spec("matplotlib") is None:
            logger.warning("no figures: matplotlib is not installed")
        else:
            from tupe_fairseq.finetune.figures import draw_figures

            draw_figures(experiment, results, best)
        report.write_overall(os.path.dirname(folder))
    return table, failed


def settings_of(experiment: Experiment) -> dict[str, Any]:
    """All that the scores depend on."""
    data = experiment.data
    return {
        "task": data.task.name,
        "checkpoint": experiment.model.identity,
        "vocabulary": data.vocabulary,
        "rows": data.rows,
        **{name: data.sha256(name) for name in data.files},
        **vars(experiment.settings),
    }


def _finished(experiment: Experiment) -> Results:
    """The result.json of each finished run of any grid."""
    found = finished(experiment.folder, "lr*-seed*")
    runs = {path: Run(float(one["lr"]), one["seed"], experiment) for path, one in found.items()}
    return {run: found[path] for path, run in runs.items() if run.folder == path}


def _remove_checkpoints(experiment: Experiment, results: Results, keep_checkpoints: bool) -> None:
    """Of finished runs keep the best run's best checkpoint, and the vocabulary that is with it."""
    best = best_run(results, experiment.data.task)
    for run in results:
        remove_checkpoints(run.folder, keep=BEST if keep_checkpoints or run == best else "")
        if not os.path.exists(run.path(BEST)):
            remove_vocabulary(run.folder)
    if best is not None:  # the link "best" to its folder
        link = os.path.join(experiment.folder, "best")
        if os.path.lexists(link):
            os.remove(link)
        os.symlink(best.name, link)


def _predict_test_sets(
    experiment: Experiment, best: Run, device: str
) -> dict[str, dict[str, float]]:
    """The best run predicts the test sets, GLUE's in the server's format; scores of the others."""
    data, scores = experiment.data, {}
    submission = os.path.join(os.path.dirname(experiment.folder), "submission")
    for split in data.splits("test"):
        if not data.can_be_predicted(split):
            logger.warning("%s has no tags, so only tupe-predict knows its words", split)
            continue
        predicted, path = predictions(best, split, device), best.path(f"predictions-{split}.tsv")
        if data.task.benchmark:
            task = GLUE_TASKS[data.task.name]
            path = write_submission(
                submission, task, split, data.index(split), predicted.predictions
            )
        elif predicted.targets is not None:
            scores[split] = measure(data.task, predicted)
        logger.info("%s has the predictions of %s", path, best.name)
    return scores
