"""What finished runs and tasks have left on disk, checked when it is read back."""

import os
from dataclasses import replace
from typing import Any

from tupe_fairseq.files.atomic import read_json
from tupe_fairseq.files.record import check_record, read_record
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun
from tupe_fairseq.finetune.scores import Results
from tupe_fairseq.finetune.selection import metric_names
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS
from tupe_fairseq.labelled.task_description import RECORD, Task


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


def _metrics(task: Task) -> dict[str, dict[str, type]]:
    splits = [split for split in task.splits if split.startswith("valid")]
    return {split: dict.fromkeys(metric_names(task), float) for split in splits}


def _result(path: str, run: FineTuningRun, task: Task) -> dict[str, Any]:
    shape = {
        "run": str,
        "lr": str,
        "seed": int,
        "epochs": (int, None),
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


def read_summaries(runs_dir: str) -> list[dict[str, Any]]:
    """The results.json of each task of a folder of runs: GLUE's in its order, then one's own.

    Folders with results of something else are left out.

    Raises:
        ValueError: if one is damaged, or of another task; the message names it.
    """
    own = sorted(name for name in os.listdir(runs_dir) if name not in GLUE_TASKS)
    found = []
    for name in [*GLUE_TASKS, *own]:
        path = os.path.join(runs_dir, name, "results.json")
        if os.path.exists(path):
            try:
                content = read_json(path)
                if name in GLUE_TASKS or (isinstance(content, dict) and "description" in content):
                    found.append(_summary(content, path, name))
            except ValueError as error:
                again = f"tupe-finetune --task {name} writes it again"
                raise ValueError(f"{error}; delete {path}, and {again}") from error
    return found


def _summary(content: Any, path: str, name: str) -> dict[str, Any]:
    """The results.json of a task, checked."""
    shape = {
        "task": str,
        "selection": str,
        "description": (RECORD, None),
        "score": float,
        "best_lr": str,
        "best_run": (str, None),
        "best_run_score": (float, None),
        "baseline_score": float,
        "settings": {"pretrained": bool, "pooling": (str, None), "checkpoint": {"sha256": str}},
        "by_lr": [{"lr": str, "seeds": [int], "metrics": dict}],
    }
    check_record(content, shape, path)
    if content["task"] != name:
        raise ValueError(f"{path} is of the task {content['task']}")
    if content.get("description") is None:
        task = replace(GLUE_TASKS[name].task, selection=content["selection"])
    else:
        task = Task.from_record(content["description"])
        test = {str: {task.selection: float}}
        check_record(content, {"test": test, "baseline": {"test": test}}, path)
    check_record(content, {"by_lr": [{"metrics": _metrics(task)}]}, path)
    if content["best_lr"] not in [row["lr"] for row in content["by_lr"]]:
        raise ValueError(f"{path} is damaged: by_lr lacks {content['best_lr']}")
    return {**content, **{name: content.get(name) for name in ("best_run", "best_run_score")}}
