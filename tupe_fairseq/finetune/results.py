"""The results of a task, and the table of all tasks."""

import math
import os
import shlex
from collections.abc import Mapping
from statistics import fmean, median
from typing import Any, NamedTuple

from tupe_fairseq.data.metrics import METRICS, class_scores
from tupe_fairseq.files import atomic_write, by_index, locked, read_json
from tupe_fairseq.finetune.experiment import Experiment
from tupe_fairseq.finetune.fine_tuning import FineTuning, predictions
from tupe_fairseq.labelled.glue import GLUE_TASKS
from tupe_fairseq.labelled.task import Task
from tupe_fairseq.results.intervals import OVER_ROWS, OVER_SEEDS, over_seeds
from tupe_fairseq.results.page import (
    class_table,
    in_cell,
    page,
    percent,
    seeds_cell,
    table,
    training,
    unequal,
    unequal_table,
    write_page,
)
from tupe_fairseq.results.scores import (
    Predicted,
    flat,
    measure,
    metric_cells,
    metric_names,
    undefined,
    with_intervals,
)
from tupe_fairseq.runs.study import best_rate

_MNLI_SETS = {"valid": "matched", "valid1": "mismatched"}
_MEAN = "mean over the seeds"
_UNDEFINED = "The baseline's correlation is undefined, too; it counts as 0."
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


def by_learning_rate(results: Results, task: Task) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Medians over the seeds of each learning rate, and those of the best one.

    A diverged run is below all others. If half or more of the runs at a rate diverged, its
    ``metrics`` is None.
    """
    table, scores = [], {}
    for lr in dict.fromkeys(run.lr for run in sorted(results)):
        runs = [results[run] for run in sorted(results) if run.lr == lr]
        all_metrics = [run["metrics"] for run in runs]
        medians = {
            split: {
                name: median(one[split][name] if one else -math.inf for one in all_metrics)
                for name in metric_names(task)
            }
            for split in task.splits
            if "valid" in split
        }
        seeds, diverged = [run["seed"] for run in runs], all_metrics.count(None)
        metrics = None if 2 * diverged >= len(runs) else medians
        of_seeds = [one and one["valid"][task.selection] for one in all_metrics]
        row = {"lr": runs[0]["lr"], "seeds": seeds, "diverged": diverged, "metrics": metrics}
        scores[len(table)] = dict(zip(seeds, of_seeds))
        table.append({**row, "spread": over_seeds(of_seeds)})
    return table, table[best_rate(scores)]


def score(metrics: dict[str, dict[str, float]] | None, task: Task) -> float | None:
    """One number for a task: the mean over its development sets, and over GLUE's metrics."""
    if metrics is None:
        return None
    names = task.metrics if task.benchmark else (task.selection,)
    return fmean(metrics[split][name] for split in metrics for name in names)


class Tested(NamedTuple):
    """The predictions of a test set, once all runs have ended."""

    best: Predicted  # by the best run
    seeds: dict[int, Predicted]  # at the best rate


def score_table(
    task: Task,
    name: str,
    metrics: dict[str, Any],
    seeds: Mapping[int, Predicted],
    baseline: dict[str, str],
) -> list[str]:
    """A table of a model, the seeds and the baseline, and what its intervals are."""
    rows = [{"": name, **metric_cells(metrics)}]
    if len(seeds) > 1:
        scores = [measure(task, predicted) for predicted in seeds.values()]
        medians = {name: median(one[name] for one in scores) for name in metric_names(task)}
        mean = seeds_cell(over_seeds([one[task.selection] for one in scores]), times=100)
        row = {"": f"median of {len(seeds)} seeds", **metric_cells(medians)}
        rows.append({**row, f"{METRICS[task.selection].label}: {_MEAN}": mean})
    text = OVER_ROWS + f" {OVER_SEEDS}" * (len(seeds) > 2)
    return [table([*rows, baseline]), text, undefined(metrics)]


def baseline_row(task: Task, answer: Any, metrics: dict[str, float]) -> dict[str, str]:
    """The row of the baseline: what it always predicts, and its scores."""
    own = {name: metrics[name] for name in metric_names(task)}
    return {"": task.kind.baseline_in_table(in_cell(answer)), **metric_cells(own)}


def write_task(
    experiment: Experiment,
    settings: dict[str, Any],
    results: Results,
    baseline: dict[str, Any],
    tested: Mapping[str, Tested] = {},
) -> str:
    """Write results.json and results.md of a task with at least one finished run.

    ``baseline`` is from :func:`tupe_fairseq.results.scores.baseline`.
    """
    task = experiment.data.task
    best, (rates, best_lr) = best_run(results, task), by_learning_rate(results, task)
    tests = {split: with_intervals(task, one.best) for split, one in tested.items()}
    summary = {
        "task": task.name,
        "selection": task.selection,
        "settings": settings,
        "unequal": unequal({run.name: training(results[run]) for run in sorted(results)}),
        "best_lr": best_lr["lr"],
        "score": score(best_lr["metrics"], task),
        "best_run": best and best.name,
        "best_run_score": best and score(results[best]["metrics"], task),
        "baseline_score": score(baseline["metrics"], task),
        "baseline": baseline,
        "by_lr": rates,
        "runs": [results[run] for run in sorted(results)],
    }
    if not task.benchmark:
        classes = []
        if best and task.labels:
            classes = class_scores(task.labels, *map(flat, predictions(best, "valid")))
        summary.update(description=task.to_record(), classes=classes)
        summary["test"] = {
            split: {name: one["value"] for name, one in of.items()} for split, of in tests.items()
        }
    text = _task_page(summary, task, tested, tests)
    write_page(experiment.folder, summary, text)
    return text


def _task_page(
    summary: dict[str, Any], task: Task, tested: Mapping[str, Tested], tests: dict[str, Any]
) -> str:
    settings, baseline, rates = summary["settings"], summary["baseline"], summary["by_lr"]
    splits = [split for split in task.splits if "valid" in split]

    def scores(metrics, interval=None) -> dict[str, str]:
        cells = {}
        for split in splits:
            of_set = f" ({_MNLI_SETS[split]})" if len(splits) > 1 else ""
            for name in metric_names(task):
                is_main = (split, name) == ("valid", task.selection)
                shown = metrics and metrics[split][name], interval if is_main else None
                cells[METRICS[name].label + of_set] = percent(*shown, "diverged")
        return cells

    medians = []
    for row in rates:
        label = row["lr"] + " (best)" * (row["lr"] == summary["best_lr"])
        cells = {"learning rate": label, "seeds": len(row["seeds"]), **scores(row["metrics"])}
        if max(len(one["seeds"]) for one in rates) > 1:
            mean = seeds_cell(row["spread"], times=100) if len(row["seeds"]) > 1 else ""
            cells[f"{METRICS[task.selection].label}: {_MEAN}"] = mean
        medians.append(cells)
    answer = task.kind.baseline_in_table(in_cell(baseline["answer"]))
    medians.append({"learning rate": answer, **scores(baseline["metrics"])})
    runs = [
        {"run": run["run"] + " (best)" * (run["run"] == summary["best_run"])}
        | {"epochs": run["epochs"], **scores(run["metrics"], run.get("interval"))}
        for run in summary["runs"]
    ]
    seeds = {seed for row in rates for seed in row["seeds"]}
    is_incomplete = any(len(row["seeds"]) < len(seeds) for row in rates)
    parts = [
        f"# {task.name}" + ", without pre-training" * (not settings["pretrained"]),
        f"{origin_of(settings)} Development set ({settings['rows']['valid']} rows), times 100.",
        "Each run's epoch, the rate and the best run are chosen by their scores on these rows, "
        "which are therefore a little too high.",
        options(settings),
        "## Median over the seeds",
        table(medians),
        OVER_SEEDS * any(len(row["seeds"]) > 2 for row in rates),
        _UNDEFINED * (not task.labels),
        "**Incomplete:** rates are compared at the seeds that all of them have." * is_incomplete,
        "## Each run",
        table(runs),
        OVER_ROWS * any(run.get("interval") is not None for run in summary["runs"]),
    ]
    if summary["best_run"] and summary["best_run_score"] <= summary["baseline_score"] < 1:
        parts.append(NO_BETTER)
    for split, one in tested.items():
        name = f"{summary['best_run']}, the best run"
        least = baseline_row(task, baseline["answer"], baseline["test"][split])
        parts += [
            f"## {split.capitalize()} set ({len(one.best.targets)} rows)",
            "Scored once, at the end; nothing is chosen on these rows. Report the best run.",
            *score_table(task, name, tests[split], one.seeds, least),
        ]
    if summary.get("classes"):
        title = "## Each class of the development set, by the best run"
        parts += [title, class_table(summary["classes"])]
    return page([*parts, *unequal_table(summary["unequal"])])


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

_COLUMNS = ("score", "best run", "baseline", "learning rate", "seeds")


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
        name, settings = in_cell(one["task"]), one["settings"]
        row: dict[str, Any] = dict.fromkeys(_COLUMNS, "")
        if "folds" in one:
            name += f", {len(one['folds'])} folds"
            test = one["score"], one["baseline_score"]
        else:
            best_lr = next(row for row in one["by_lr"] if row["lr"] == one["best_lr"])
            keys = "score", "best_run_score", "baseline_score"
            cells = [percent(one[key], missing="diverged") for key in keys]
            row = dict(zip(_COLUMNS, [*cells, best_lr["lr"], len(best_lr["seeds"])]))
            of_test = one.get("test", {}), one["baseline"].get("test", {})
            test = [of["test"][one["selection"]] for of in of_test if "test" in of]
        remarks = ["not pre-trained"] * (not settings["pretrained"])
        remarks += [f"{settings['pooling']} pooling"] if settings["pooling"] else []
        name += f" ({', '.join(remarks)})" if remarks else ""
        if len(test) == 2:
            row |= dict(zip(("test set", "its baseline"), map(percent, test)))
        rows.append({"task": name, **row})
    text = (
        "Times 100. The score is the median over the seeds at the best learning rate: of the "
        "metric that picks checkpoints, for GLUE the mean of two metrics or two sets. The baseline "
        "sees no text, or for tags one word."
    )
    return page(["# Development sets", text, table(rows)])
