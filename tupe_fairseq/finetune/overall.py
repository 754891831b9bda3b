"""The results of all tasks of a folder of runs."""

from typing import Any

from tupe_fairseq.files.lock import locked
from tupe_fairseq.files.results import write_results
from tupe_fairseq.finetune.overall_table import overall_table
from tupe_fairseq.finetune.read_results import read_summaries


def write_overall(runs_dir: str) -> None:
    """Write RUNS/results.md and RUNS/results.json from the results.json of the tasks in RUNS.

    Raises:
        ValueError: if one of them is damaged.
    """
    # another task may finish at the same time; who comes last reads the results of both
    with locked(runs_dir, wait=True):
        overall = overall_results(read_summaries(runs_dir))
        write_results(runs_dir, overall, overall_table(overall))


def overall_results(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    """The scores of all tasks, and the averages of GLUE's.

    A task's score is its median at the best learning rate; with two metrics, or two development
    sets, it is their mean.  One's own tasks are in ``own_tasks``, if there are any.

    Args:
        summaries (list of dict): the tasks' results.json, in the order of the table.
    """
    tasks: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for summary in summaries:
        description = summary.get("description")
        if description is None:
            tasks[summary["task"]] = _row(summary)
        else:
            test = {"test": summary["test"], "baseline_test": summary["baseline"]["test"]}
            own[summary["task"]] = {**_row(summary), **test, "description": description}
    models = {
        (row["pretrained"], row.get("pooling"), row["checkpoint"]["sha256"])
        for row in tasks.values()
    }
    without_wnli = [row for name, row in tasks.items() if name != "WNLI"]
    return {
        "tasks": tasks,
        # scores of different models have no meaningful average
        "one_model": len(models) == 1,
        "average": _averages(list(tasks.values())) if len(models) == 1 else None,
        "average_without_wnli": (
            _averages(without_wnli) if len(models) == 1 and "WNLI" in tasks else None
        ),
        **({"own_tasks": own} if own else {}),
    }


def _row(summary: dict[str, Any]) -> dict[str, Any]:
    pooling = summary["settings"].get("pooling")
    best_lr = next(row for row in summary["by_lr"] if row["lr"] == summary["best_lr"])
    return {
        "score": summary["score"],
        "best_lr": summary["best_lr"],
        "seeds": len(best_lr["seeds"]),
        "metrics": best_lr["metrics"],
        "best_run": summary["best_run"],
        "best_run_score": summary["best_run_score"],
        "baseline_score": summary["baseline_score"],
        "pretrained": summary["settings"]["pretrained"],
        "checkpoint": summary["settings"]["checkpoint"],
        **({} if pooling is None else {"pooling": pooling}),
    }


def _averages(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    if not rows:
        return None
    averages: dict[str, Any] = {"tasks": len(rows)}
    for key in ("score", "best_run_score", "baseline_score"):
        values = [row[key] for row in rows]
        averages[key] = None if None in values else sum(values) / len(values)
    return averages
