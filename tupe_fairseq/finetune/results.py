"""The results of a task, and the table of all tasks."""

import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from tupe_fairseq.data.metrics import METRICS, class_scores
from tupe_fairseq.files import atomic_write, by_index, locked, read_json
from tupe_fairseq.finetune.fine_tuning import FineTuning
from tupe_fairseq.finetune.scoring import (
    DRAWS,
    Predicted,
    flat,
    measure,
    metric_names,
    read_predictions,
    with_intervals,
)
from tupe_fairseq.finetune.settings import Experiment
from tupe_fairseq.labelled.glue import GLUE_TASKS
from tupe_fairseq.labelled.task import Task
from tupe_fairseq.runs import study
from tupe_fairseq.runs.tables import in_cell, markdown_table, page, spread, write_tables

_MNLI_SETS = {"valid": "matched", "valid1": "mismatched"}
OF_ROWS = (
    f"The 95% interval is of {DRAWS:,} draws of as many rows, with repeats (bootstrap), or "
    "Wilson's if these do not differ."
)
OF_SEEDS = "The interval of the mean over seeds is Student's t."
_UNDEFINED = "A correlation is undefined if all labels or all predictions are equal."
_CONSTANT = "The baseline's correlation is undefined, too; it counts as 0."
NO_BETTER = (
    "**No run beats the baseline.** A small model may need --lrs of up to 1e-3, and each model the "
    "--dropout of its pre-training."
)

#: the result.json of each finished run
Results = dict[FineTuning, dict[str, Any]]


def best_run(results: Results, task: Task) -> FineTuning | None:
    """The best run on the main development set, the first if tied; None if all diverged."""
    scores = {
        run: results[run]["metrics"]["valid"][task.selection]
        for run in sorted(results)
        if results[run]["metrics"]
    }
    return max(scores, key=scores.__getitem__, default=None)


def by_learning_rate(results: Results, task: Task) -> list[dict[str, Any]]:
    """Medians over the seeds of each learning rate; a diverged run is below all others.

    If half or more of the runs at a rate diverged, its ``metrics`` is None.
    """
    table, splits = [], [split for split in task.splits if "valid" in split]
    for lr in dict.fromkeys(run.lr for run in sorted(results)):
        runs = [results[run] for run in sorted(results) if run.lr == lr]
        all_metrics = [run["metrics"] for run in runs]
        medians = {
            split: {
                name: median(one[split][name] if one else -math.inf for one in all_metrics)
                for name in metric_names(task)
            }
            for split in splits
        }
        seeds, diverged = [run["seed"] for run in runs], all_metrics.count(None)
        metrics = None if 2 * diverged >= len(runs) else medians
        scores = [one and one["valid"][task.selection] for one in all_metrics]
        row = {"lr": runs[0]["lr"], "seeds": seeds, "diverged": diverged, "metrics": metrics}
        table.append({**row, "spread": spread(scores)})
    return table


def best_rate(results: Results, task: Task) -> dict[str, Any]:
    """The row of :func:`by_learning_rate` with the best rate on the main development set."""
    scores: dict[str, dict[int, float | None]] = {}
    for one in (results[run] for run in sorted(results)):
        score = one["metrics"] and one["metrics"]["valid"][task.selection]
        scores.setdefault(one["lr"], {})[one["seed"]] = score
    best = study.best_rate(scores)
    return next(row for row in by_learning_rate(results, task) if row["lr"] == best)


def score(metrics: dict[str, dict[str, float]] | None, task: Task) -> float | None:
    """One number for a task: the mean over its development sets, and over GLUE's metrics."""
    if metrics is None:
        return None
    names = task.metrics if task.benchmark else (task.selection,)
    return fmean(metrics[split][name] for split in metrics for name in names)


@dataclass
class Final:
    """The predictions for each split that are made once all runs have ended."""

    best: dict[str, Predicted] = field(default_factory=dict)  # by the best run
    seeds: dict[str, dict[int, Predicted]] = field(default_factory=dict)  # at the best rate


def percent(value: float | None, missing: str = "undefined") -> str:
    """A fraction times 100, with one decimal; ``missing`` for None."""
    return missing if value is None else f"{100 * value:.1f}".replace("-0.0", "0.0")


def interval(measured: dict[str, Any]) -> str:
    """The interval of a metric or a run, such as 77.7 to 86.2, if it has one."""
    return " to ".join(map(percent, measured.get("interval") or ()))


def class_table(classes: list[dict[str, Any]]) -> str:
    scores = ("precision", "recall", "f1")
    rows = [
        [in_cell(one["label"]), *(percent(one[n], "-") for n in scores), str(one["support"])]
        for one in classes
    ]
    return markdown_table(["class", "precision", "recall", "F1", "number"], rows)


def score_table(
    task: Task,
    model: tuple[str, dict[str, Any]],
    seeds: dict[int, Predicted],
    baseline: list[str],
) -> str:
    """Rows for a model, the median of the seeds, and the baseline."""
    (name, metrics), names = model, metric_names(task)
    values = [percent(one["value"]) for one in metrics.values()]
    of_seeds = _spread_labels([len(seeds)])
    empty = [""] * len(of_seeds)
    rows = [[name, *values, interval(metrics[task.selection]), *empty]]
    if len(seeds) > 1:
        scores = [measure(task, predicted) for predicted in seeds.values()]
        medians = [median(one[name] for one in scores) for name in names]
        cells = _spread_cells(spread([one[task.selection] for one in scores]), of_seeds)
        rows.append([f"median of {len(seeds)} seeds", *map(percent, medians), "", *cells])
    header = ["", *(METRICS[name].label for name in names), _interval_label(task), *of_seeds]
    return markdown_table(header, [*rows, [*baseline, "", *empty]])


def note_of(metrics: dict[str, dict[str, Any]]) -> str:
    """A sentence if a metric is undefined."""
    return _UNDEFINED * any(one["value"] is None for one in metrics.values())


def baseline_row(task: Task, answer: Any, metrics: dict[str, float]) -> list[str]:
    """The table row of the baseline: what it always predicts, and its scores."""
    return [_baseline(task, answer), *(percent(metrics[name]) for name in metric_names(task))]


def _baseline(task: Task, answer: Any) -> str:
    return task.kind.baseline_in_table(in_cell(answer))


def _interval_label(task: Task) -> str:
    return f"{METRICS[task.selection].label}: 95% interval"


def _spread_labels(seeds: Sequence[int]) -> list[str]:
    """The columns of :func:`_spread_cells` for rows of so many seeds each."""
    return ["range over seeds", "95% interval of the mean over seeds"][: max(0, max(seeds) - 1)]


def _spread_cells(found: dict[str, Any] | None, labels: list[str]) -> list[str]:
    """The range over the seeds; the interval of their mean for three that are not all equal."""
    cells = []
    if found and found["n"] > 1:
        cells.append(" to ".join(map(percent, (found["min"], found["max"]))))
    if found and found["n"] > 2 and found["margin95"]:
        ends = (found["mean"] + sign * found["margin95"] for sign in (-1, 1))
        cells.append(" to ".join(map(percent, ends)))
    return cells + [""] * (len(labels) - len(cells))


def write_task(
    experiment: Experiment,
    settings: dict[str, Any],
    results: Results,
    constant: dict[str, Any],
    final: Final | None = None,
) -> str:
    """Write results.json and results.md of a task with at least one finished run.

    ``constant`` is from :func:`tupe_fairseq.finetune.scoring.baseline`.
    """
    task, final = experiment.data.task, final or Final()
    best, table = best_run(results, task), by_learning_rate(results, task)
    tests = {split: with_intervals(task, predicted) for split, predicted in final.best.items()}
    best_lr = best_rate(results, task)
    summary = {
        "task": task.name,
        "selection": task.selection,
        "settings": settings,
        "best_lr": best_lr["lr"],
        "score": score(best_lr["metrics"], task),
        "best_run": best and best.name,
        "best_run_score": best and score(results[best]["metrics"], task),
        "baseline_score": score(constant["metrics"], task),
        "baseline": constant,
        "by_lr": table,
        "runs": [results[run] for run in sorted(results)],
    }
    if not task.benchmark:
        classes = []
        if best and task.labels:
            path = best.path("predictions-valid.tsv")
            sides = read_predictions(path, experiment.data, "valid")
            classes = class_scores(task.labels, *map(flat, sides))
        summary.update(description=task.to_record(), classes=classes)
        summary["test"] = {
            split: {name: one["value"] for name, one in of.items()} for split, of in tests.items()
        }
    text = _task_page(summary, task, final, tests)
    write_tables(experiment.folder, summary, text)
    return text


def _task_page(
    summary: dict[str, Any], task: Task, final: Final, tests: dict[str, dict[str, Any]]
) -> str:
    settings, constant = summary["settings"], summary["baseline"]
    splits = [split for split in task.splits if "valid" in split]
    columns = [(split, name) for split in splits for name in metric_names(task)]
    labels = [
        METRICS[name].label + (f" ({_MNLI_SETS[split]})" if len(splits) > 1 else "")
        for split, name in columns
    ]

    def line(name: str, best: str | None, number: object, metrics) -> list[str]:
        cells = [metrics and metrics[split][metric] for split, metric in columns]
        scores = [percent(value, "diverged") for value in cells]
        return [name + " (best)" * (name == best), str(number), *scores]

    of_seeds = _spread_labels([len(row["seeds"]) for row in summary["by_lr"]])
    medians = [
        line(row["lr"], summary["best_lr"], len(row["seeds"]), row["metrics"])
        + _spread_cells(row["spread"], of_seeds)
        for row in summary["by_lr"]
    ]
    baseline = _baseline(task, constant["answer"])
    medians.append([*line(baseline, None, "", constant["metrics"]), *[""] * len(of_seeds)])
    runs = [
        line(run["run"], summary["best_run"], run["epochs"], run["metrics"]) + [interval(run)]
        for run in summary["runs"]
    ]
    seeds = {seed for row in summary["by_lr"] for seed in row["seeds"]}
    is_incomplete = any(len(row["seeds"]) < len(seeds) for row in summary["by_lr"])
    parts = [
        f"# {task.name}" + ", without pre-training" * (not settings["pretrained"]),
        f"{origin_of(settings)} Development set ({settings['rows']['valid']} rows), times 100.",
        "Each run's epoch, the rate and the best run are chosen by their scores on these rows, "
        "which are therefore a little too high.",
        options(settings),
        "## Median over the seeds",
        markdown_table(["learning rate", "seeds", *labels, *of_seeds], medians),
        OF_SEEDS * (len(of_seeds) > 1),
        _CONSTANT * (not task.labels),
        "**Incomplete:** rates are compared at the seeds that all of them have." * is_incomplete,
        "## Each run",
        markdown_table(["run", "epochs", *labels, _interval_label(task)], runs),
        OF_ROWS,
    ]
    if summary["best_run"] and summary["best_run_score"] <= summary["baseline_score"] < 1:
        parts.append(NO_BETTER)
    for split, predicted in final.best.items():
        of_best = f"{summary['best_run']}, the best run", tests[split]
        least = baseline_row(task, constant["answer"], constant["test"][split])
        parts += [
            f"## {split.capitalize()} set ({len(predicted.targets)} rows)",
            "Scored once, at the end; nothing is chosen on these rows. Report the best run.",
            score_table(task, of_best, final.seeds[split], least),
            note_of(tests[split]),
        ]
    if summary.get("classes"):
        title = "## Each class of the development set, by the best run"
        parts += [title, class_table(summary["classes"])]
    return page(parts)


def origin_of(settings: dict[str, Any]) -> str:
    """A sentence about the model and the training."""
    checkpoint = settings["checkpoint"]
    origin = f"Fine-tuned from {checkpoint['name']} (sha256 {checkpoint['sha256'][:12]})"
    if not settings["pretrained"]:
        origin = f"NOT pre-trained: random weights, a model of the size of {checkpoint['name']}"
    return f"{origin}; epochs: {settings['epochs']}; rows per update: {settings['batch_size']}."


def options(settings: dict[str, Any]) -> str:
    """A line for each option that changes the protocol."""
    names = ("pooling", "metric", "patience", "class_weights", "train_flags")
    values = {**settings, "train_flags": shlex.join(settings.get("train_flags") or ())}
    return "\n".join(f"- {n.replace('_', ' ')}: {values[n]}" for n in names if values.get(n))


# ---- All tasks


def write_overall(runs_dir: str) -> None:
    """Write RUNS/results.md from the results.json of the tasks in RUNS."""
    # another task may finish at the same time; the last one reads the results of both
    with locked(runs_dir, wait=True):
        own = sorted({*os.listdir(runs_dir)} - {*GLUE_TASKS}, key=by_index)
        paths = [os.path.join(runs_dir, name, "results.json") for name in [*GLUE_TASKS, *own]]
        found = [read_json(path) for path in paths if os.path.exists(path)]
        # other commands write a results.json, too
        table = overall_table([one for one in found if "by_lr" in one or "folds" in one])
        with atomic_write(os.path.join(runs_dir, "results.md")) as file:
            file.write(table)


def overall_table(summaries: list[dict[str, Any]]) -> str:
    """A row for each task, from its results.json."""
    rows = []
    for one in summaries:
        name, settings, scores = in_cell(one["task"]), one["settings"], [""] * 5
        if "folds" in one:
            name += f", {len(one['folds'])} folds"
            test = one["score"], one["baseline_score"]
        else:
            best_lr = next(row for row in one["by_lr"] if row["lr"] == one["best_lr"])
            names = ("score", "best_run_score", "baseline_score")
            scores = [*(percent(one[key], "diverged") for key in names), best_lr["lr"]]
            scores.append(str(len(best_lr["seeds"])))
            of_test = one.get("test", {}), one["baseline"].get("test", {})
            test = [of["test"][one["selection"]] for of in of_test if "test" in of]
        remarks = ["not pre-trained"] * (not settings["pretrained"])
        remarks += [f"{settings['pooling']} pooling"] if settings["pooling"] else []
        name += f" ({', '.join(remarks)})" if remarks else ""
        shown = "{} (baseline {})".format(*map(percent, test)) if len(test) == 2 else ""
        rows.append([name, *scores, shown])
    text = (
        "# Development sets\n\nTimes 100. The score is the median over the seeds at the best "
        "learning rate: of the metric that picks checkpoints,\nfor GLUE the mean of two metrics or "
        "two sets. The baseline sees no text, or for tags one word.\n\n"
    )
    header = ["task", "score", "best run", "baseline", "learning rate", "seeds", "test set"]
    return text + markdown_table(header, rows)
