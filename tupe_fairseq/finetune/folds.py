"""The score of a task by folds: each row is predicted by a model that has not seen it."""

import os
from typing import Any

from tupe_fairseq.data.metrics import METRICS, class_scores
from tupe_fairseq.data.text_files import read_lines
from tupe_fairseq.files import atomic_write
from tupe_fairseq.finetune import results as report
from tupe_fairseq.finetune.fine_tuning import FineTuning
from tupe_fairseq.finetune.results import Results, best_run
from tupe_fairseq.finetune.scoring import (
    Predicted,
    flat,
    joined,
    measure,
    metric_names,
    with_intervals,
)
from tupe_fairseq.finetune.settings import Experiment
from tupe_fairseq.runs.tables import markdown_table, page, write_tables

_TEST = "test"
_BASELINE = "The baseline of a fold comes from the rows that its model learns from."
_MEANS = " It predicts their mean, which differs between folds, so its correlation means nothing."


def write_folds(
    folder: str,
    settings: dict[str, Any],
    results: dict[Experiment, Results],
    finals: dict[Experiment, report.Final],
) -> str:
    """Write results.json, results.md and predictions.tsv of all folds; returns the table."""
    experiments, of_folds = list(finals), list(finals.values())
    task = experiments[0].data.task
    best = {one: best_run(results[one], task) for one in experiments}
    pooled = _pooled([one.best[_TEST] for one in of_folds])
    in_all = set.intersection(*(set(one.seeds[_TEST]) for one in of_folds))
    seeds = {seed: _pooled([one.seeds[_TEST][seed] for one in of_folds]) for seed in sorted(in_all)}
    answers, constants = zip(*(task.kind.baseline(one.data) for one in experiments))
    constant = joined([predict(_TEST) for predict in constants])
    least = measure(task, Predicted(constant, pooled.targets))
    metrics, names = with_intervals(task, pooled), metric_names(task)
    score = metrics[task.selection]
    folds = [
        {"fold": one.fold, "rows": one.data.rows, "run": best[one].name}
        | {name: results[one][best[one]].get(name) for name in ("versions", "machine")}
        | {"metrics": measure(task, finals[one].best[_TEST])}
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
        "seeds": {seed: measure(task, one) for seed, one in seeds.items()},
        "folds": folds,
    }
    label = "the best run of each fold"
    baseline = report.baseline_row(task, list(dict.fromkeys(answers)), least)
    each = [
        [one["fold"], str(one["rows"][_TEST])]
        + [*(report.percent(one["metrics"][name]) for name in names), one["run"]]
        for one in folds
    ]
    learned, chosen = (
        " to ".join(map(str, sorted({min(counts), max(counts)})))
        for counts in ([one["rows"][x] for one in folds] for x in ("train", "valid"))
    )
    parts = [
        f"# {task.name}, {len(folds)} folds",
        f"{report.origin_of(settings)} Times 100.",
        f"Each of the {len(pooled.targets)} rows is predicted once, by a model that has not seen "
        f"it. A fold's model learns from {learned} rows; epoch, rate and best run are chosen on "
        f"{chosen} others.",
        report.options(settings),
        "## All rows",
        report.score_table(task, (label, metrics), seeds, baseline),
        f"**Report** {METRICS[task.selection].label} {report.percent(score['value'])} "
        f"(95% interval {report.interval(score)}), by {label}, as predictions.tsv has it."
        if score["interval"]
        else "",
        report.note_of(metrics),
        f"{report.OF_ROWS} {report.OF_SEEDS * (len(seeds) > 2)}",
        f"{_BASELINE}{_MEANS * (not task.labels)}",
        report.NO_BETTER * ((score["value"] or 0) <= least[task.selection] < 1),
        "## Each fold, by its best run",
        markdown_table(["fold", "rows", *(METRICS[n].label for n in names), "run"], each),
    ]
    if task.labels:
        summary["classes"] = class_scores(task.labels, *map(flat, pooled))
        parts += ["## Each class", report.class_table(summary["classes"])]
    _write_predictions(folder, best)
    text = page(parts)
    write_tables(folder, summary, text)
    return text


def _pooled(parts: list[Predicted]) -> Predicted:
    return Predicted(*map(joined, zip(*parts)))


def _write_predictions(folder: str, best: dict[Experiment, FineTuning]) -> None:
    """predictions.tsv: the lines of all folds in the order of the user's file."""
    lines, header = [], ""
    for one, run in best.items():
        header, *own = read_lines(run.path(f"predictions-{_TEST}.tsv"))
        lines += [(line.partition("\t")[0], f"{line}\t{one.fold}") for line in own]
    lines.sort(key=lambda line: int(line[0]))
    with atomic_write(os.path.join(folder, "predictions.tsv")) as file:
        file.write("\n".join([f"{header}\tfold", *(line for _, line in lines), ""]))
