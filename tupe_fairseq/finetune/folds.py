"""The score of a task by folds: each row is predicted by a model that has not seen it."""

import os
from typing import Any

from tupe_fairseq.data.metrics import METRIC_LABELS, class_scores
from tupe_fairseq.data.task import QA
from tupe_fairseq.files import atomic_write
from tupe_fairseq.finetune import report
from tupe_fairseq.finetune.command import Experiment
from tupe_fairseq.finetune.scoring import (
    Predicted,
    Results,
    best_run,
    constant_predictions,
    flat,
    joined,
    measure,
    metric_names,
    with_intervals,
)
from tupe_fairseq.runs.tables import in_cell, markdown_table, write_tables

_TEST = "test"
_BASELINE = "The baseline of a fold comes from the rows that its model learns from."
_MEANS = " These means differ, so they have a correlation, which says nothing."


def write_folds(
    folder: str,
    settings: dict[str, Any],
    results: dict[Experiment, Results],
    tests: dict[Experiment, report.Tests],
) -> str:
    """Write results.json, results.md and predictions.tsv of all folds; the table."""
    experiments = list(tests)
    task, has_votes = experiments[0].data.task, all(one.votes for one in tests.values())
    best = {one: best_run(results[one], task) for one in experiments}
    pooled = _pooled([one.best[_TEST] for one in tests.values()])
    votes = _pooled([one.votes[_TEST] for one in tests.values()]) if has_votes else None
    in_all = set.intersection(*(set(one.seeds[_TEST]) for one in tests.values()))
    seeds = {
        seed: _pooled([one.seeds[_TEST][seed] for one in tests.values()]) for seed in sorted(in_all)
    }
    of_vote = votes and with_intervals(task, votes)
    says, constants = zip(*(constant_predictions(one.data) for one in experiments))
    constant = joined([predict(_TEST) for predict in constants])
    least = measure(task, Predicted(constant, pooled.targets))
    metrics, names = with_intervals(task, pooled), metric_names(task)
    score = (of_vote or metrics)[task.selection]
    is_useless = max(score["value"], metrics[task.selection]["value"]) <= least[task.selection]
    folds = [
        {"fold": one.fold, "rows": one.data.rows, "run": best[one].name}
        | {"metrics": measure(task, tests[one].best[_TEST])}
        for one in experiments
    ]
    summary = {
        "task": task.name,
        "selection": task.selection,
        "settings": settings,
        "description": task.to_record(),
        "score": score["value"],
        "baseline_score": least[task.selection],
        "metrics": metrics,
        "ensemble": of_vote,
        "seeds": {seed: measure(task, one) for seed, one in seeds.items()},
        "folds": folds,
    }
    one_each = all(len(of) == 1 for of in results.values())
    number = len(next(iter(tests.values())).voters)
    one_run = "run" if one_each else "best run"
    label = f"the {one_run} of each fold"
    what = "its epoch is" if one_each else "epoch, rate and best run are"
    table = [report.model_row(label, task, metrics)]
    table += report.seed_rows(task, seeds, of_vote, number)
    baseline = report.BASELINES[task.kind].format(in_cell(list(dict.fromkeys(says))))
    table.append([baseline, *(report.percent(least[n]) for n in names), "", ""])
    labels = [METRIC_LABELS[name] for name in names]
    each = [
        [one["fold"], str(one["rows"][_TEST]), *(report.percent(one["metrics"][n]) for n in names)]
        + [one["run"]]
        for one in folds
    ]
    rows, chosen = len(pooled.targets), folds[0]["rows"]
    lines = [
        f"# {task.name}, {len(folds)} folds",
        "",
        f"{report.origin_of(settings)} Times 100.",
        "",
        f"Each of the {rows} rows is predicted once, by a model that has not seen it. It learns "
        f"from {chosen['train']} rows (fold1), and {what} chosen on {chosen['valid']} others.",
        "",
        *report.options(settings, task),
        "## All rows",
        "",
        markdown_table(["", *labels, *report.spread_labels(task)], table),
        f"**Report** {METRIC_LABELS[task.selection]} {report.percent(score['value'])} "
        f"(95% interval {' to '.join(map(report.percent, score['interval']))}), by "
        f"{f'the vote of {number} seeds' if of_vote else label}, as predictions.tsv has it.",
        "",
        f"{report.INTERVALS} {_BASELINE}{_MEANS * task.is_regression}",
        "",
        *[report.NO_BETTER] * is_useless,
        f"## Each fold, by its {one_run}",
        "",
        markdown_table(["fold", "rows", *labels, "run"], each),
    ]
    if not task.is_regression and task.kind != QA:
        summary["classes"] = class_scores(task.labels, *map(flat, votes or pooled))
        title = "## Each class" + ", by the vote" * bool(votes)
        lines += [title, "", report.class_table(summary["classes"])]
    paths = [
        os.path.join(one.folder if has_votes else best[one].folder, f"predictions-{_TEST}.tsv")
        for one in experiments
    ]
    _write_predictions(folder, experiments, paths)
    text = "\n".join(lines)
    runs = [
        {"fold": one.fold, **report.row_of(results[one][run])}
        for one in experiments
        for run in sorted(results[one])
    ]
    write_tables(folder, summary, text, runs)
    return text


def _pooled(parts: list[Predicted]) -> Predicted:
    """The rows of all folds."""
    return Predicted(*map(joined, zip(*parts)))


def _write_predictions(folder: str, experiments: list[Experiment], paths: list[str]) -> None:
    """predictions.tsv: the lines of all folds in the order of the user's file."""
    lines, header = [], ""
    for one, path in zip(experiments, paths):
        with open(path, encoding="utf-8", newline="\n") as file:
            header, *own = file.read().removesuffix("\n").split("\n")
        lines += [f"{line}\t{one.fold}" for line in own]
    rows = [line.partition("\t")[0] for line in lines]
    order = sorted(range(len(lines)), key=lambda n: (len(rows[n]), rows[n]))  # numbers, or names
    with atomic_write(os.path.join(folder, "predictions.tsv")) as file:
        file.write("\n".join([f"{header}\tfold", *(lines[n] for n in order), ""]))
