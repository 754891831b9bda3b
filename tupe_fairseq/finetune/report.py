"""The results of a task and of all tasks: results.json and results.md."""

import os
import shlex
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tupe_fairseq.data.glue import GLUE_TASKS
from tupe_fairseq.data.metrics import METRIC_LABELS, class_scores, most_frequent
from tupe_fairseq.data.task import CHOICE, CLASSIFICATION, MULTILABEL, QA, REGRESSION, TAGGING, Task
from tupe_fairseq.files import locked, read_json
from tupe_fairseq.finetune.command import Experiment
from tupe_fairseq.finetune.scoring import (
    DRAWS,
    Predicted,
    Results,
    best_rate,
    best_run,
    by_learning_rate,
    flat,
    measure,
    metric_names,
    read_predictions,
    score,
    with_intervals,
)
from tupe_fairseq.runs.tables import in_cell, markdown_table, spread, write_tables

_SCORES = {"score": "score", "best_run_score": "best run", "baseline_score": "baseline"}
_MNLI_SETS = {"valid": "matched", "valid1": "mismatched"}
INTERVALS = (
    "The interval of three seeds or more is that of their mean (Student's t); that of one model or "
    f"vote comes from {DRAWS:,} draws of the rows with repeats."
)
NO_BETTER = (
    "**No run beats the baseline.** A small model needs higher learning rates (--lrs 2e-4,5e-4), "
    "and one that was pre-trained without dropout --dropout 0.\n"
)
BASELINES = {
    CLASSIFICATION: "always {} (majority class)",
    REGRESSION: "always {} (mean score)",
    MULTILABEL: "always {} (most frequent set of labels)",
    QA: "always {}",
    CHOICE: "always {} (most frequent)",
    TAGGING: "each word's most frequent tag ({} if it is unknown)",
}


def percent(value: float | None) -> str:
    """A fraction times 100, with one decimal; "diverged" for None."""
    return "diverged" if value is None else f"{100 * value:.1f}".replace("-0.0", "0.0")


def class_table(classes: list[dict[str, Any]]) -> str:
    """Precision, recall and F1 of the most frequent classes."""
    scores = ("precision", "recall", "f1")
    rows = [
        [in_cell(one["label"]), *(percent(one[n]) for n in scores), str(one["support"])]
        for one in most_frequent(classes)
    ]
    more = f" ({len(rows)} of {len(classes)})" * (len(rows) < len(classes))
    return markdown_table([f"class{more}", "precision", "recall", "F1", "number"], rows)


@dataclass
class Tests:
    """What is predicted once all runs have ended."""

    voters: list[int]  # the seeds of an ensemble, if there is one
    votes: dict[str, Predicted] = field(default_factory=dict)  # of each split
    best: dict[str, Predicted] = field(default_factory=dict)  # by the best run, of test sets
    seeds: dict[str, dict[int, Predicted]] = field(default_factory=dict)  # at the best rate


def spread_cells(found: dict[str, Any] | None) -> list[str]:
    """The range over the seeds, and the 95% interval of their mean; of two it says nothing."""
    if found is None or found["n"] < 2:
        return ["", ""]
    ends = [found["mean"] + sign * found["margin95"] for sign in (-1, 1)]
    sides = [" to ".join(map(percent, side)) for side in ([found["min"], found["max"]], ends)]
    return sides if found["n"] > 2 else [sides[0], ""]


def model_row(name: str, task: Task, metrics: dict[str, Any]) -> list[str]:
    """Metrics with intervals over the rows; that of the task's own is shown."""
    values = [percent(one["value"]) for one in metrics.values()]
    interval = " to ".join(map(percent, metrics[task.selection]["interval"]))
    return [name, *values, "", interval]


def seed_rows(
    task: Task, seeds: dict[int, Predicted], vote: dict[str, Any] | None, number: int
) -> list[list[str]]:
    """The median over the seeds, and the vote of an ensemble of so many with its gain."""
    if len(seeds) < 2:
        return []
    found = [measure(task, predicted) for predicted in seeds.values()]
    medians = [median(one[name] for one in found) for name in metric_names(task)]
    cells = spread_cells(spread([one[task.selection] for one in found]))
    rows = [[f"median of {len(seeds)} seeds", *map(percent, medians), *cells]]
    if vote:
        rows += vote_rows([f"vote of {number} seeds"], task, [vote], medians)
    return rows


def vote_rows(
    first: list[str], task: Task, votes: list[dict[str, Any]], medians: list[float]
) -> list[list[str]]:
    """An ensemble's metrics on each set, and its gain; ``first`` are the cells before."""
    values = [one["value"] for vote in votes for one in vote.values()]
    interval = " to ".join(map(percent, votes[0][task.selection]["interval"]))
    gains = (f"{100 * (value - before):+.1f}" for value, before in zip(values, medians))
    second = ["gain of the vote over the median", "", ""][: len(first)]
    return [[*first, *map(percent, values), "", interval], [*second, *gains, "", ""]]


def write_task(
    experiment: Experiment,
    settings: dict[str, Any],
    results: Results,
    constant: dict[str, Any],
    tests: Tests | None = None,
) -> str:
    """Write results.json, results.md and runs.csv of a task with one finished run or more.

    ``constant`` is the baseline, ``tests`` what is predicted at the end.
    """
    data, task = experiment.data, experiment.data.task
    best, table = best_run(results, task), by_learning_rate(results, task)
    best_lr = best_rate(table, task)
    summary = {
        "task": task.name,
        **({"fold": experiment.fold} if experiment.fold else {}),
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
        path = "" if best is None else best.path("predictions-valid.tsv")
        has_classes = task.kind not in (REGRESSION, QA)
        predicted = read_predictions(path, data, "valid") if has_classes else None
        classes = predicted and class_scores(task.labels, *map(flat, predicted))
        best_on = tests.best if tests else {}
        test = {split: measure(task, predicted) for split, predicted in best_on.items()}
        summary.update(description=task.to_record(), classes=classes or [], test=test)
    if tests and tests.voters:
        known = {x: one for x, one in tests.votes.items() if one.targets is not None}
        votes = {split: with_intervals(task, one) for split, one in known.items()}
        summary["ensemble"] = {"seeds": tests.voters, "metrics": votes}
    text = task_table(summary, task, tests)
    write_tables(experiment.folder, summary, text, [row_of(run) for run in summary["runs"]])
    return text


def row_of(run: dict[str, Any]) -> dict[str, Any]:
    """A run for runs.csv: a column for each metric of each set."""
    metrics = {f"{x}/{n}": v for x, of in (run["metrics"] or {}).items() for n, v in of.items()}
    return {**{name: value for name, value in run.items() if name != "metrics"}, **metrics}


def task_table(summary: dict[str, Any], task: Task, tests: Tests | None = None) -> str:
    """results.md of a task."""
    settings, constant = summary["settings"], summary["baseline"]
    names, splits = metric_names(task), [split for split in task.splits if "valid" in split]
    columns = [(split, name) for split in splits for name in names]
    labels = [
        METRIC_LABELS[name] + (f" ({_MNLI_SETS[split]})" if len(splits) > 1 else "")
        for split, name in columns
    ]

    def line(name: str, best: str | None, number: object, metrics) -> list[str]:
        scores = [percent(metrics and metrics[split][metric]) for split, metric in columns]
        return [name + " (best)" * (name == best), str(number), *scores]

    baseline = BASELINES[task.kind].format(in_cell(constant["answer"]))
    medians = [
        [
            *line(row["lr"], summary["best_lr"], len(row["seeds"]), row["metrics"]),
            *spread_cells(row["spread"]),
        ]
        for row in summary["by_lr"]
    ]
    ensemble = summary.get("ensemble", {"seeds": [], "metrics": {}})
    number, votes = len(ensemble["seeds"]), ensemble["metrics"]
    best_lr = next(row for row in summary["by_lr"] if row["lr"] == summary["best_lr"])
    if number and best_lr["metrics"]:
        before = [best_lr["metrics"][split][name] for split, name in columns]
        first = [f"vote at {best_lr['lr']}", str(number)]
        medians += vote_rows(first, task, [votes[split] for split in splits], before)
    medians.append([*line(baseline, None, "", constant["metrics"]), "", ""])
    runs = [
        line(run["run"], summary["best_run"], run["epochs"], run["metrics"])
        for run in summary["runs"]
    ]
    fold = summary.get("fold")
    is_incomplete = len({len(row["seeds"]) for row in summary["by_lr"]}) > 1
    title = task.name, fold, "" if settings["pretrained"] else "without pre-training"
    lines = [
        "# " + ", ".join(filter(None, title)),
        "",
        f"{origin_of(settings)} Development set ({settings['rows']['valid']} rows), times 100.",
        "",
        "Each run's epoch, the rate and the best run are chosen by their scores on these rows, "
        "which are therefore a little too high.",
        "",
        *options(settings, task),
        "## Median over the seeds",
        "",
        markdown_table(["learning rate", "seeds", *labels, *spread_labels(task)], medians),
        INTERVALS + "\n",
        *["**Incomplete:** the best rate is one of those with the most seeds.\n"] * is_incomplete,
        "## Each run",
        "",
        markdown_table(["run", "epochs", *labels], runs),
    ]
    if summary["best_run"] and summary["best_run_score"] <= summary["baseline_score"]:
        lines.append(NO_BETTER)
    for split, predicted in tests.best.items() if tests else ():
        heading = f"{split.capitalize()} set ({len(predicted.targets)} rows)"
        rows = seed_rows(task, tests.seeds[split], votes.get(split), number)
        best = with_intervals(task, predicted)
        rows.append(model_row(f"{summary['best_run']}, the best run", task, best))
        rows.append([baseline, *(percent(constant["test"][split][n]) for n in names), "", ""])
        header = ["", *(METRIC_LABELS[name] for name in names), *spread_labels(task)]
        lines += [
            f"## {heading}",
            "",
            "Scored once, at the end; nothing is chosen on these rows. "
            + ("../results.md has the score to report." if fold else "Report the best run."),
            "",
        ]
        lines += [markdown_table(header, rows)]
    if summary.get("classes"):
        title = "## Each class of the development set, by the best run"
        lines += [title, "", class_table(summary["classes"])]
    return "\n".join(lines)


def origin_of(settings: dict[str, Any]) -> str:
    """A sentence about the model and the training."""
    checkpoint = settings["checkpoint"]
    origin = f"Fine-tuned from {checkpoint['name']} (sha256 {checkpoint['sha256'][:12]})"
    if not settings["pretrained"]:
        origin = f"NOT pre-trained: random weights, a model of the size of {checkpoint['name']}"
    rows = settings["batch_size"] * settings["update_freq"]
    return f"{origin}; epochs: {settings['epochs']}; rows per update: {rows}."


def spread_labels(task: Task) -> list[str]:
    """Of the last two columns."""
    return [f"{METRIC_LABELS[task.selection]}: range", "95% interval"]


def options(settings: dict[str, Any], task: Task) -> list[str]:
    """A paragraph for each option that changes the protocol."""
    weights = zip(task.labels, settings["class_weights"] or [])
    listed = ", ".join(f"{in_cell(label)} {weight:g}" for label, weight in weights)
    lines = {
        "pooling": f"The head gets the {settings['pooling']} of a text's features (--pooling).",
        "metric": f"Checkpoints are picked by {METRIC_LABELS[task.selection]} (--metric).",
        "patience": f"A run ends without a better score for {settings['patience']} epochs "
        "(--patience).",
        "class_weights": f"Weights of the classes in the loss (--balance): {listed}.",
        "train_flags": f"--train-flags: `{shlex.join(settings.get('train_flags') or ())}`",
    }
    return [line + "\n" for name, line in lines.items() if settings.get(name)]


def write_overall(runs_dir: str) -> None:
    """Write RUNS/results.json and results.md from the results.json of the tasks in RUNS."""
    # another task may finish at the same time; the last one reads the results of both
    with locked(runs_dir, wait=True):
        own = sorted(name for name in os.listdir(runs_dir) if name not in GLUE_TASKS)
        paths = [os.path.join(runs_dir, name, "results.json") for name in [*GLUE_TASKS, *own]]
        summaries = [read_json(path) for path in paths if os.path.exists(path)]
        overall = overall_results([one for one in summaries if "best_lr" in one])
        overall["folds"] = {one["task"]: one for one in summaries if "folds" in one}
        write_tables(runs_dir, overall, overall_table(overall))


def overall_results(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    """The scores of all tasks, and the averages of GLUE's.

    A task's score is its median at the best learning rate; with two metrics of GLUE, or two
    development sets, their mean.
    """
    tasks, own = {}, {}
    for summary in summaries:
        settings = summary["settings"]
        best_lr = next(row for row in summary["by_lr"] if row["lr"] == summary["best_lr"])
        row = {
            **{name: summary[name] for name in (*_SCORES, "best_lr", "best_run")},
            "seeds": len(best_lr["seeds"]),
            "metrics": best_lr["metrics"],
            **{name: settings[name] for name in ("pretrained", "checkpoint", "pooling")},
        }
        if "description" in summary:
            row.update(test=summary["test"], baseline_test=summary["baseline"]["test"])
            own[summary["task"]] = {**row, "description": summary["description"]}
        else:
            tasks[summary["task"]] = row
    rows = tasks.values()
    models = {(row["pretrained"], row["pooling"], row["checkpoint"]["sha256"]) for row in rows}
    # scores of different models have no meaningful average
    one_model = len(models) == 1
    without_wnli = [row for name, row in tasks.items() if name != "WNLI"]
    return {
        "tasks": tasks,
        "one_model": one_model,
        "average": _averages([*rows]) if one_model else None,
        "average_without_wnli": _averages(without_wnli) if one_model and "WNLI" in tasks else None,
        "own_tasks": own,
    }


def _averages(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    averages: dict[str, Any] = {"tasks": len(rows)}
    for key in _SCORES:
        values = [row[key] for row in rows]
        averages[key] = None if None in values else sum(values) / len(values)
    return averages if rows else None


def overall_table(overall: dict[str, Any]) -> str:
    """RUNS/results.md: GLUE's tasks with their average, and your own tasks."""
    rows = [_overall_row(name, row) for name, row in overall["tasks"].items()]
    for key, words in (("average", ""), ("average_without_wnli", " without WNLI")):
        if overall[key] is not None:
            label = f"average of {overall[key]['tasks']} of {len(GLUE_TASKS)} tasks{words}"
            rows.append([label, *(percent(overall[key][x]) for x in _SCORES), "", "", "", ""])
    rows += [_overall_row(name, row) for name, row in overall["own_tasks"].items()]
    for name, one in overall.get("folds", {}).items():
        shown = f"{percent(one['score'])} (baseline {percent(one['baseline_score'])})"
        label = f"{in_cell(name)}, {len(one['folds'])} folds"
        rows.append([label, *[""] * (len(_SCORES) + 3), shown])
    header = ["task", *_SCORES.values(), "learning rate", "seeds", "medians", "test set"]
    text = (
        "# Development sets\n\nTimes 100. The score is the median over the seeds at the best "
        "learning rate: of the metric that picks checkpoints,\nfor GLUE the mean of two metrics or "
        "two sets. The baseline sees no text, or for tags one word.\n\n"
    )
    if overall["tasks"] and not overall["one_model"]:
        text += "No average, because the tasks were fine-tuned from different models.\n\n"
    return text + markdown_table(header, rows)


def _overall_row(name: str, row: dict[str, Any]) -> list[str]:
    remarks = [] if row["pretrained"] else ["not pre-trained"]
    remarks += [f"{row['pooling']} pooling"] if row["pooling"] else []
    label = in_cell(name) + (f" ({', '.join(remarks)})" if remarks else "")
    medians = [
        f"{METRIC_LABELS[metric]} {f'{_MNLI_SETS[split]} ' if 'valid1' in row['metrics'] else ''}"
        f"{percent(value)}"
        for split, metrics in (row["metrics"] or {}).items()
        for metric, value in metrics.items()
        if not METRIC_LABELS[metric].startswith("mean")  # which the score is
    ]
    test = ""
    if row.get("test"):
        selection = row["description"]["selection"]
        own, least = (percent(row[x]["test"][selection]) for x in ("test", "baseline_test"))
        test = f"{own} (baseline {least})"
    scores = [percent(row[key]) for key in _SCORES]
    return [label, *scores, row["best_lr"], str(row["seeds"]), ", ".join(medians), test]
