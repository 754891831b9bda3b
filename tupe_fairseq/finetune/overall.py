"""The table over all tasks in RUNS."""

import os
from typing import Any, Dict, List, Optional

from tupe_fairseq.files.atomic import atomic_write, read_json, write_json
from tupe_fairseq.files.markdown import markdown_table
from tupe_fairseq.finetune.tables import METRIC_LABELS, MNLI_SETS, percent
from tupe_fairseq.glue.tasks import GLUE_TASKS


def write_overall(runs_dir: str) -> None:
    """Write RUNS/results.md and RUNS/results.json from the results.json of the tasks there."""
    summaries = []
    for name in GLUE_TASKS:
        path = os.path.join(runs_dir, name, "results.json")
        if os.path.exists(path):
            summaries.append(read_json(path))
    overall = overall_results(summaries)
    write_json(os.path.join(runs_dir, "results.json"), overall)
    with atomic_write(os.path.join(runs_dir, "results.md")) as file:
        file.write(overall_table(overall))


def overall_results(summaries: List[Dict[str, Any]]) -> Dict[str, Any]:
    """The scores of all tasks, and their averages.

    A task's score is its median at the best learning rate; where there are two metrics, or two
    development sets, their mean.

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


def overall_table(overall: Dict[str, Any]) -> str:
    """The text of RUNS/results.md."""
    rows = []
    for name, row in overall["tasks"].items():
        task = GLUE_TASKS[name]
        parts = [
            f"{METRIC_LABELS[metric]}{' ' + MNLI_SETS[split] if len(row['metrics']) > 1 else ''} "
            + percent(row["metrics"][split][metric])
            for split in row["metrics"]
            for metric in task.metrics
        ]
        rows.append(
            [
                name + ("" if row["pretrained"] else " (not pre-trained)"),
                _cell(row["score"]),
                _cell(row["best_run_score"]),
                _cell(row["baseline_score"]),
                row["best_lr"],
                str(row["seeds"]),
                ", ".join(parts),
            ]
        )
    for key, words in (("average", ""), ("average_without_wnli", " without WNLI")):
        found = overall[key]
        if found is not None:
            scores = [found[key] for key in ("score", "best_run_score", "baseline_score")]
            label = f"average of {found['tasks']} of {len(GLUE_TASKS)} tasks{words}"
            rows.append([label, *map(_cell, scores), "", "", ""])
    lines = [
        "# GLUE, development sets",
        "",
        "Times 100. The score is the median over the seeds at the best learning rate (two metrics, "
        "or two sets,\ncount with their mean); always answering the same is the constant.",
        "",
        markdown_table(
            ["task", "score", "best run", "constant", "learning rate", "seeds", "medians"], rows
        ),
    ]
    if not overall["one_model"]:
        lines.append("No average: the tasks were fine-tuned from different models.\n")
    return "\n".join(lines)


def _cell(value: Optional[float]) -> str:
    return "diverged" if value is None else percent(value)
