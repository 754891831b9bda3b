"""Scores on the development sets: of runs, of a task, of all tasks, and of a constant answer."""

from statistics import median
from typing import Any, Dict, List, Optional

import numpy as np

from tupe_fairseq.finetune.experiment import FineTuningRun
from tupe_fairseq.finetune.task_data import TaskData
from tupe_fairseq.glue.glue_tasks import GlueTask
from tupe_fairseq.tasks.metrics import MEANS, task_metrics

#: the result.json of each finished run, in the order of the runs
Results = Dict[FineTuningRun, Dict[str, Any]]


def metric_names(task: GlueTask) -> List[str]:
    """The task's metrics, and their mean if checkpoints are picked by it."""
    return [*task.metrics, *([task.selection] if task.selection in MEANS else [])]


def baseline(data: TaskData) -> Dict[str, Any]:
    """The scores of a constant answer, chosen on the training set.

    Returns:
        dict: ``answer``, the most frequent class of the training set (the first one if tied), or
        its mean score; ``metrics``, by split, as fractions.
    """
    task, train = data.task, data.targets("train")
    if task.is_regression:
        constant = float(train.mean())
        answer = f"{constant:.3f}"
    else:
        constant = int(np.bincount(train).argmax())
        answer = task.labels[constant]
    metrics = {}
    for split in data.splits("valid"):
        targets = data.targets(split)
        metrics[split] = task_metrics(metric_names(task), np.full_like(targets, constant), targets)
    return {"answer": answer, "metrics": metrics}


def best_run(results: Results, task: GlueTask) -> Optional[FineTuningRun]:
    """The run with the best score on the main development set; the first one if tied.

    Returns:
        FineTuningRun: None if all diverged.
    """
    scores = {
        run: result["metrics"]["valid"][task.selection]
        for run, result in results.items()
        if result["diverged"] is None
    }
    return max(scores, key=scores.__getitem__, default=None)


def by_learning_rate(results: Results, task: GlueTask) -> List[Dict[str, Any]]:
    """The median over the seeds of each learning rate, for each metric.

    A diverged run counts as 0 in each metric.

    Returns:
        list of dict: ``lr``, ``seeds``, ``diverged`` (how many), ``metrics`` by split.
    """
    table = []
    for lr in dict.fromkeys(result["lr"] for result in results.values()):
        runs = [result for result in results.values() if result["lr"] == lr]
        scored = [run for run in runs if run["diverged"] is None]
        medians: Dict[str, Dict[str, float]] = {}
        for split in [split for split in task.files if split.startswith("valid")]:
            medians[split] = {}
            for name in metric_names(task):
                values = [run["metrics"][split][name] for run in scored]
                values += [0.0] * (len(runs) - len(scored))
                medians[split][name] = median(values)
        table.append(
            {
                "lr": lr,
                "seeds": [run["seed"] for run in runs],
                "diverged": len(runs) - len(scored),
                "metrics": medians,
            }
        )
    return table


def task_results(
    task: GlueTask,
    settings: Dict[str, Any],
    results: Results,
    best: Optional[FineTuningRun],
    constant: Dict[str, Any],
) -> Dict[str, Any]:
    """The content of a task's results.json.

    Args:
        task (GlueTask): the task.
        settings (dict): what all runs share.
        results (dict): the finished runs, one or more.
        best (FineTuningRun or None): :func:`best_run` of them.
        constant (dict): of :func:`baseline`.
    """
    table = by_learning_rate(results, task)
    best_lr = max(table, key=lambda row: row["metrics"]["valid"][task.selection])
    return {
        "task": task.name,
        "selection": task.selection,
        "settings": settings,
        "best_lr": best_lr["lr"],
        "score": score(best_lr["metrics"], task),
        "best_run": None if best is None else best.name,
        "best_run_score": None if best is None else score(results[best]["metrics"], task),
        "baseline_score": score(constant["metrics"], task),
        "baseline": constant,
        "by_lr": table,
        "runs": list(results.values()),
    }


def score(metrics: Dict[str, Dict[str, float]], task: GlueTask) -> float:
    """One number for a task: the mean over its metrics and its development sets."""
    values = [metrics[split][name] for split in metrics for name in task.metrics]
    return sum(values) / len(values)


def overall_results(summaries: List[Dict[str, Any]]) -> Dict[str, Any]:
    """The scores of all tasks, and their averages.

    A task's score is its median at the best learning rate; with two metrics, or two development
    sets, it is their mean.

    Args:
        summaries (list of dict): the tasks' results.json, in the order of the table.
    """
    tasks = {}
    for summary in summaries:
        best_lr = next(row for row in summary["by_lr"] if row["lr"] == summary["best_lr"])
        tasks[summary["task"]] = {
            "score": summary["score"],
            "best_lr": summary["best_lr"],
            "seeds": len(best_lr["seeds"]),
            "metrics": best_lr["metrics"],
            "best_run": summary["best_run"],
            "best_run_score": summary["best_run_score"],
            "baseline_score": summary["baseline_score"],
            "pretrained": summary["settings"]["pretrained"],
            "checkpoint": summary["settings"]["checkpoint"],
        }
    models = {(row["pretrained"], row["checkpoint"]["sha256"]) for row in tasks.values()}
    without_wnli = [row for name, row in tasks.items() if name != "WNLI"]
    return {
        "tasks": tasks,
        # scores of different models have no meaningful average
        "one_model": len(models) == 1,
        "average": _averages(list(tasks.values())) if len(models) == 1 else None,
        "average_without_wnli": (
            _averages(without_wnli) if len(models) == 1 and "WNLI" in tasks else None
        ),
    }


def _averages(rows: List[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
    if not rows:
        return None
    averages: Dict[str, Any] = {"tasks": len(rows)}
    for key in ("score", "best_run_score", "baseline_score"):
        values = [row[key] for row in rows]
        averages[key] = None if None in values else sum(values) / len(values)
    return averages
