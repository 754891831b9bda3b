"""A task's results as markdown."""

from typing import Any, Dict, List

from tupe_fairseq.files.markdown import markdown_table
from tupe_fairseq.finetune.scores import metric_names
from tupe_fairseq.glue.tasks import GlueTask

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
        summary (dict): of :func:`tupe_fairseq.finetune.scores.summarize`.
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
            f"{origin(settings)}; epochs: {settings['epochs']}; rows an update: {rows(settings)}. "
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
    """Where the weights came from, in words."""
    name = settings["checkpoint"]["name"]
    if settings["pretrained"]:
        return f"Fine-tuned from {name} (sha256 {settings['checkpoint']['sha256'][:12]})"
    return f"NOT pre-trained: random weights, a model of the size of {name}"


def rows(settings: Dict[str, Any]) -> int:
    """The rows of one update."""
    return settings["batch_size"] * settings["update_freq"] * settings["gpus"]
