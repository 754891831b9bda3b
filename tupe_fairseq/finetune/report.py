"""The results of a task as markdown."""

from collections.abc import Sequence
from typing import Any

from tupe_fairseq.files.markdown import markdown_table
from tupe_fairseq.finetune.selection import metric_names
from tupe_fairseq.labelled.class_scores import most_frequent
from tupe_fairseq.labelled.task_description import (
    CLASSIFICATION,
    MULTILABEL,
    REGRESSION,
    TAGGING,
    Task,
)

METRIC_LABELS = {
    "accuracy": "accuracy",
    "acc_and_f1": "mean of both",
    "entity_f1": "entity F1",
    "f1": "F1",
    "macro_f1": "macro F1",
    "mcc": "Matthews",
    "micro_f1": "micro F1",
    "pearson": "Pearson",
    "pearson_and_spearman": "mean of both",
    "spearman": "Spearman",
}
_MEANS = {"acc_and_f1": ("accuracy", "f1"), "pearson_and_spearman": ("pearson", "spearman")}
MNLI_SETS = {"valid": "matched", "valid1": "mismatched"}
_BASELINES = {
    CLASSIFICATION: "always {} (majority class)",
    REGRESSION: "always {} (mean score)",
    MULTILABEL: "always {} (most frequent set of labels)",
    TAGGING: "each word's most frequent tag ({} if it is unknown)",
}


def percent(value: float) -> str:
    """A fraction times 100, with one decimal."""
    text = f"{100 * value:.1f}"
    return "0.0" if text == "-0.0" else text


def in_cell(text: str) -> str:
    """A label or a name, which a user chose, so that it stays in its cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def metric_in_words(name: str, beside: Sequence[str] = ()) -> str:
    """A metric's name.

    Args:
        name (str): the metric.
        beside (sequence of str): those before it; a mean need not name its parts if they are these.
    """
    parts = _MEANS.get(name, ())
    if not parts or set(parts) == set(beside):
        return METRIC_LABELS[name]
    return f"mean of {' and '.join(METRIC_LABELS[part] for part in parts)}"


def task_table(summary: dict[str, Any], task: Task) -> str:
    """The text of RUNS/TASK/results.md.

    Args:
        summary (dict): of :func:`tupe_fairseq.finetune.scores.task_results`; of one's own task also
            ``classes`` and ``test``.
        task (Task): the task.
    """
    splits = [split for split in task.splits if split.startswith("valid")]
    columns = [(split, name) for split in splits for name in metric_names(task)]
    labels = [
        metric_in_words(name, task.metrics) + (f" ({_set(task, split)})" if len(splits) > 1 else "")
        for split, name in columns
    ]

    def cells(metrics) -> list[str]:
        return [percent(metrics[split][name]) for split, name in columns]

    medians = [
        [
            row["lr"] + (" (best)" if row["lr"] == summary["best_lr"] else ""),
            str(len(row["seeds"])),
            *cells(row["metrics"]),
        ]
        for row in summary["by_lr"]
    ]
    constant = summary["baseline"]
    baseline = _BASELINES[task.kind].format(in_cell(constant["answer"]))
    medians.append([baseline, "", *cells(constant["metrics"])])
    settings = summary["settings"]
    is_patient = settings.get("patience") is not None
    runs = [
        [
            run["run"] + (" (best)" if run["run"] == summary["best_run"] else ""),
            *([str(run.get("epochs", ""))] if is_patient else []),
            *(cells(run["metrics"]) if run["diverged"] is None else ["diverged"] * len(columns)),
        ]
        for run in summary["runs"]
    ]
    return "\n".join(
        [
            f"# {task.name}" + ("" if settings["pretrained"] else ", without pre-training"),
            "",
            f"{origin(settings)}; {settings['epochs']} epochs; {rows(settings)} rows per update. "
            "Development set, times 100.",
            "",
            *_options(settings, task),
            "## Median over the seeds",
            "",
            markdown_table(["learning rate", "seeds", *labels], medians),
            "## Each run",
            "",
            markdown_table(["run", *(["epochs"] if is_patient else []), *labels], runs),
            *_test_sets(summary, task, baseline),
            *_classes(summary.get("classes", [])),
        ]
    )


def _set(task: Task, split: str) -> str:
    return MNLI_SETS[split] if task.benchmark else split


def _options(settings: dict[str, Any], task: Task) -> list[str]:
    """What else was asked for, a line each."""
    lines = []
    if settings.get("pooling") is not None:
        lines += [f"The head gets the {settings['pooling']} of a text's features (--pooling)."]
    if settings.get("metric") is not None:
        lines += [f"Checkpoints are picked by {metric_in_words(task.selection)} (--metric)."]
    if settings.get("patience") is not None:
        epochs = settings["patience"]
        lines += [
            f"Runs stopped early (--patience): better scores were waited for {epochs} epochs."
        ]
    if settings.get("class_weights") is not None:
        weights = zip(task.labels, settings["class_weights"])
        listed = ", ".join(f"{in_cell(label)} {weight:g}" for label, weight in weights)
        lines += [f"Weights of the classes in the loss (--balance): {listed}."]
    return [*lines, ""] if lines else []


def _test_sets(summary: dict[str, Any], task: Task, baseline: str) -> list[str]:
    """The tables of the test sets that have labels."""
    lines = []
    for split, metrics in summary.get("test", {}).items():
        names = metric_names(task)
        answers = {summary["best_run"]: metrics, baseline: summary["baseline"]["test"][split]}
        table = [[name, *(percent(one[of]) for of in names)] for name, one in answers.items()]
        lines += [
            f"## {split.capitalize()} set, by the run that is best on the development set",
            "",
            markdown_table(
                ["run", *(metric_in_words(name, task.metrics) for name in names)], table
            ),
        ]
    return lines


def _classes(classes: list[dict[str, Any]]) -> list[str]:
    """The table of the classes, those that are shown in figures, too."""
    if not classes:
        return []
    table = [
        [in_cell(one["label"]), *(percent(one[name]) for name in ("precision", "recall", "f1")),
         str(one["support"])]
        for one in most_frequent(classes)
    ]  # fmt: skip
    more = len(classes) - len(table)
    return [
        "## Each class, by the best run",
        "",
        *([f"The {len(table)} most frequent of {len(classes)}.", ""] if more else []),
        markdown_table(["class", "precision", "recall", "F1", "number"], table),
    ]


def remark(row: dict[str, Any]) -> str:
    """What stands behind a task's name in the table of all tasks, where it is not as usual.

    Args:
        row (dict): with ``pretrained`` and, if it is not that of ``<s>``, the ``pooling``.
    """
    words = [] if row["pretrained"] else ["not pre-trained"]
    words += [f"{row['pooling']} pooling"] if row.get("pooling") is not None else []
    return f" ({', '.join(words)})" if words else ""


def origin(settings: dict[str, Any]) -> str:
    """A sentence on where the weights came from."""
    name = settings["checkpoint"]["name"]
    if settings["pretrained"]:
        return f"Fine-tuned from {name} (sha256 {settings['checkpoint']['sha256'][:12]})"
    return f"NOT pre-trained: random weights, a model of the size of {name}"


def rows(settings: dict[str, Any]) -> int:
    """The rows per update."""
    return settings["batch_size"] * settings["update_freq"] * settings["gpus"]
