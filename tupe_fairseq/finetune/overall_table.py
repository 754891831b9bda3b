"""The table of all tasks as markdown."""

from typing import Any

from tupe_fairseq.files.markdown import markdown_table
from tupe_fairseq.finetune.tables import (
    METRIC_LABELS,
    MNLI_SETS,
    in_cell,
    metric_in_words,
    percent,
    remark,
)
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS


def overall_table(overall: dict[str, Any]) -> str:
    """The text of RUNS/results.md: GLUE's tasks with their average, and one's own tasks."""
    parts = [_glue_table(overall)] if overall["tasks"] else []
    return "\n".join(parts + ([_own_table(overall["own_tasks"])] if "own_tasks" in overall else []))


def _glue_table(overall: dict[str, Any]) -> str:
    rows: list[list[str]] = []
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
                name + remark(row),
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
        "Times 100. The score is the median over the seeds at the best learning rate (the mean of "
        "two metrics,\nor of two sets); the constant is the score of always giving the same "
        "answer.",
        "",
        markdown_table(
            ["task", "score", "best run", "constant", "learning rate", "seeds", "medians"], rows
        ),
    ]
    if not overall["one_model"]:
        lines.append(
            "No average, because the tasks were fine-tuned from different models, or pooled "
            "differently.\n"
        )
    return "\n".join(lines)


def _own_table(tasks: dict[str, Any]) -> str:
    header = [
        "task", "metric", "score", "best run", "baseline", "learning rate", "seeds",
        "test set, best run", "test set, baseline",
    ]  # fmt: skip
    rows = []
    for name, row in tasks.items():
        selection = row["description"]["selection"]
        tests = [_test_cell(row[key], selection) for key in ("test", "baseline_test")]
        rows.append(
            [
                in_cell(name) + remark(row),
                metric_in_words(selection),
                *(_cell(row[key]) for key in ("score", "best_run_score", "baseline_score")),
                row["best_lr"],
                str(row["seeds"]),
                *tests,
            ]
        )
    lines = [
        "# Tasks of one's own, development sets",
        "",
        "Times 100, by the metric that picks checkpoints. The score is the median over the seeds "
        "at the best learning\nrate; the baseline sees no text, or for tags one word. Each task's "
        "own results.md has the other metrics. Test sets are\nscored once, by the run that is best "
        "on the development set.",
        "",
        markdown_table(header, rows),
    ]
    return "\n".join(lines)


def _test_cell(scores: dict[str, dict[str, float]], selection: str) -> str:
    return ", ".join(percent(metrics[selection]) for metrics in scores.values())


def _cell(value: float | None) -> str:
    return "diverged" if value is None else percent(value)
