"""Scores of the development sets: of a run, of no model at all, and of a grid."""

from statistics import median
from typing import Any, Dict, List, Optional

import numpy as np

from tupe_fairseq.finetune.task_data import TaskData
from tupe_fairseq.glue.metrics import MEANS, glue_metrics
from tupe_fairseq.glue.tasks import GlueTask


def metric_names(task: GlueTask) -> List[str]:
    """The task's metrics and, where that is the mean of two, what checkpoints are picked by."""
    return [*task.metrics, *([task.selection] if task.selection in MEANS else [])]


def baseline(data: TaskData) -> Dict[str, Any]:
    """What always answering the same is worth, chosen on the training set.

    Returns:
        dict: ``answer``, the most frequent class of the training set (the first of several), or
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
        metrics[split] = glue_metrics(metric_names(task), np.full_like(targets, constant), targets)
    return {"answer": answer, "metrics": metrics}


def selection(result: Dict[str, Any], task: GlueTask) -> float:
    """The number that runs are compared by: of the main development set, -inf if diverged."""
    if result["diverged"] is not None:
        return -float("inf")
    return result["metrics"]["valid"][task.selection]


def best_run(results: List[Dict[str, Any]], task: GlueTask) -> Optional[Dict[str, Any]]:
    """The best single run; the first of equal ones; None if all diverged."""
    best = max(results, key=lambda result: selection(result, task), default=None)
    return None if best is None or best["diverged"] is not None else best


def by_learning_rate(results: List[Dict[str, Any]], task: GlueTask) -> List[Dict[str, Any]]:
    """The median over the seeds of each learning rate, of each metric by itself.

    A diverged run counts as 0 in each metric.

    Args:
        results (list of dict): the runs, by learning rate.
        task (GlueTask): the task.
    Returns:
        list of dict: ``lr``, ``seeds``, ``diverged`` (how many), ``metrics`` by split.
    """
    table = []
    for lr in dict.fromkeys(result["lr"] for result in results):
        runs = [result for result in results if result["lr"] == lr]
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


def summarize(
    task: GlueTask,
    settings: Dict[str, Any],
    results: List[Dict[str, Any]],
    constant: Dict[str, Any],
) -> Dict[str, Any]:
    """The results of a task, as they go into its results.json.

    Args:
        task (GlueTask): the task.
        settings (dict): what all runs share.
        results (list of dict): the finished runs, one or more.
        constant (dict): of :func:`baseline`.
    """
    results = sorted(results, key=lambda result: (float(result["lr"]), result["seed"]))
    table = by_learning_rate(results, task)
    best_lr = max(table, key=lambda row: row["metrics"]["valid"][task.selection])
    best = best_run(results, task)
    return {
        "task": task.name,
        "selection": task.selection,
        "settings": settings,
        "best_lr": best_lr["lr"],
        "score": score(best_lr["metrics"], task),
        "best_run": None if best is None else best["run"],
        "best_run_score": None if best is None else score(best["metrics"], task),
        "baseline_score": score(constant["metrics"], task),
        "baseline": constant,
        "by_lr": table,
        "runs": results,
    }


def score(metrics: Dict[str, Dict[str, float]], task: GlueTask) -> float:
    """One number for a task: the mean over its metrics and its development sets."""
    values = [metrics[split][name] for split in metrics for name in task.metrics]
    return sum(values) / len(values)
