"""The results of a task, and of all tasks, as markdown."""

from typing import Any, Dict, List, Optional

from tupe_fairseq.files.markdown import markdown_table
from tupe_fairseq.finetune.scores import metric_names
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS, GlueTask

METRIC_LABELS = {
    "accuracy": "accuracy",
    "acc_and_f1": "mean of both",
    "f1": "F1",
    "mcc": "Matthews",
    "pearson": "Pearson",
    "pearson_and_spearman": "mean of both",
    "spearman": "Spearman",
}
MNLI_SETS = {"valid": "matched", "valid1": "mismatched"}


def percent(value: float) -> str:
    """A fraction times 100, with one decimal."""
    text = f"{100 * value:.1f}"
    return "0.0" if text == "-0.0" else text


def task_table(summary: Dict[str, Any], task: GlueTask) -> str:
    """The text of RUNS/TASK/results.md.

    Args:
        summary (dict): of :func:`tupe_fairseq.finetune.scores.task_results`.
        task (GlueTask): the task.
    """
    splits = [split for split in task.files if split.startswith("valid")]
    columns = [(split, name) for split in splits for name in metric_names(task)]
    labels = [
        METRIC_LABELS[name] + (f" ({MNLI_SETS[split]})" if len(splits) > 1 else "")
        for split, name in columns
    ]

    def cells(metrics) -> List[str]:
        return [percent(metrics[split][name]) for split, name in columns]

    medians = [
        [
            row["lr"] + (" (best)" if row["lr"] == summary["best_lr"] else ""),
            str(len(row["seeds"])),
            *cells(row["metrics"]),
        ]
        for row in summary["by_lr"]
    ]
    kind = "mean score" if task.is_regression else "majority class"
    constant = summary["baseline"]
    medians.append([f"always {constant['answer']} ({kind})", "", *cells(constant["metrics"])])
    runs = [
        [
            run["run"] + (" (best)" if run["run"] == summary["best_run"] else ""),
            *(cells(run["metrics"]) if run["diverged"] is None else ["diverged"] * len(columns)),
        ]
        for run in summary["runs"]
    ]
    settings = summary["settings"]
    return "\n".join(
        [
            f"# {task.name}" + ("" if settings["pretrained"] else ", without pre-training"),
            "",
            f"{origin(settings)}; {settings['epochs']} epochs; {rows(settings)} rows per update. "
            "Development set, times 100.",
            "",
            "## Median over the seeds",
            "",
            markdown_table(["learning rate", "seeds", *labels], medians),
            "## Each run",
            "",
            markdown_table(["run", *labels], runs),
        ]
    )


def origin(settings: Dict[str, Any]) -> str:
    """A sentence on where the weights came from."""
    name = settings["checkpoint"]["name"]
    if settings["pretrained"]:
        return f"Fine-tuned from {name} (sha256 {settings['checkpoint']['sha256'][:12]})"
    return f"NOT pre-trained: random weights, a model of the size of {name}"


def rows(settings: Dict[str, Any]) -> int:
    """The rows per update."""
    return settings["batch_size"] * settings["update_freq"] * settings["gpus"]


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
        "Times 100. The score is the median over the seeds at the best learning rate (the mean of "
        "two metrics,\nor of two sets); the constant is the score of always giving the same "
        "answer.",
        "",
        markdown_table(
            ["task", "score", "best run", "constant", "learning rate", "seeds", "medians"], rows
        ),
    ]
    if not overall["one_model"]:
        lines.append("No average, because the tasks were fine-tuned from different models.\n")
    return "\n".join(lines)


def _cell(value: Optional[float]) -> str:
    return "diverged" if value is None else percent(value)
