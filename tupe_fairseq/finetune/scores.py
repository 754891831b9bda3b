"""Scores on the development sets: of runs and of a task."""

from statistics import median
from typing import Any

from tupe_fairseq.finetune.experiment import FineTuningRun
from tupe_fairseq.finetune.selection import metric_names
from tupe_fairseq.labelled.task_description import Task

#: the result.json of each finished run, in the order of the runs
Results = dict[FineTuningRun, dict[str, Any]]


def best_run(results: Results, task: Task) -> FineTuningRun | None:
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


def by_learning_rate(results: Results, task: Task) -> list[dict[str, Any]]:
    """The median over the seeds of each learning rate, for each metric.

    A diverged run counts as 0 in each metric.

    Returns:
        list of dict: ``lr``, ``seeds``, ``diverged`` (how many), ``metrics`` by split.
    """
    table = []
    for lr in dict.fromkeys(result["lr"] for result in results.values()):
        runs = [result for result in results.values() if result["lr"] == lr]
        scored = [run for run in runs if run["diverged"] is None]
        medians: dict[str, dict[str, float]] = {}
        for split in [split for split in task.splits if split.startswith("valid")]:
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
    task: Task,
    settings: dict[str, Any],
    results: Results,
    best: FineTuningRun | None,
    constant: dict[str, Any],
) -> dict[str, Any]:
    """The content of a task's results.json.

    Args:
        task (Task): the task.
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


def score(metrics: dict[str, dict[str, float]], task: Task) -> float:
    """One number for a task: the mean over its development sets.

    Of a benchmark also over the metrics that it reports; of one's own task, the one that picks
    checkpoints.
    """
    names = task.metrics if task.benchmark else (task.selection,)
    values = [metrics[split][name] for split in metrics for name in names]
    return sum(values) / len(values)
