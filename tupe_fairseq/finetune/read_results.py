"""What finished runs and tasks have left on disk, checked when it is read back."""

import os
from typing import Any, Dict

from tupe_fairseq.files.record import read_record
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun
from tupe_fairseq.finetune.scores import Results, metric_names
from tupe_fairseq.glue.glue_tasks import GlueTask


def finished(experiment: Experiment) -> Results:
    """The result.json of each finished run, including other grids, in the order of the runs.

    Raises:
        ValueError: if one is damaged, or of another run; the message names it.
    """
    results = {}
    for run in filter(None, map(FineTuningRun.named, os.listdir(experiment.folder))):
        path = experiment.path(run, "result.json")
        if os.path.exists(path):
            try:
                results[run] = _result(path, run, experiment.data.task)
            except ValueError as error:
                raise ValueError(f"{error}; delete {path}, and the run is made again") from error
    return dict(sorted(results.items()))


def _metrics(task: GlueTask) -> Dict[str, Dict[str, type]]:
    splits = [split for split in task.files if split.startswith("valid")]
    return {split: dict.fromkeys(metric_names(task), float) for split in splits}


def _result(path: str, run: FineTuningRun, task: GlueTask) -> Dict[str, Any]:
    shape = {
        "run": str,
        "lr": str,
        "seed": int,
        "diverged": (str, None),
        "metrics": (_metrics(task), None),
    }
    result = read_record(path, shape)
    result = {**result, **{name: result.get(name) for name in ("diverged", "metrics")}}
    if (result["run"], result["lr"], result["seed"]) != (run.name, run.lr_text, run.seed):
        raise ValueError(f"{path} is the result of {result['run']}, not of {run.name}")
    if (result["diverged"] is None) == (result["metrics"] is None):
        raise ValueError(f"{path} is damaged: a run has metrics, or else has diverged")
    return result


def read_summary(path: str, task: GlueTask) -> Dict[str, Any]:
    """The results.json of a task.

    Raises:
        ValueError: if it is damaged, or of another task; the message names it.
    """
    shape = {
        "task": str,
        "score": float,
        "best_lr": str,
        "best_run": (str, None),
        "best_run_score": (float, None),
        "baseline_score": float,
        "settings": {"pretrained": bool, "checkpoint": {"sha256": str}},
        "by_lr": [{"lr": str, "seeds": [int], "metrics": _metrics(task)}],
    }
    try:
        summary = read_record(path, shape)
        if summary["task"] != task.name:
            raise ValueError(f"{path} is of the task {summary['task']}")
        if summary["best_lr"] not in [row["lr"] for row in summary["by_lr"]]:
            raise ValueError(f"{path} is damaged: by_lr lacks {summary['best_lr']}")
    except ValueError as error:
        raise ValueError(
            f"{error}; delete {path}, and tupe-finetune --task {task.name} writes it again"
        ) from error
    return {**summary, **{name: summary.get(name) for name in ("best_run", "best_run_score")}}
