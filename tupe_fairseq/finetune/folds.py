"""The score of a task by folds: each row is predicted by a model that has not seen it."""

import os
from typing import Any

from tupe_fairseq.data.metrics import METRICS, class_scores
from tupe_fairseq.data.rows import row_writer
from tupe_fairseq.files import atomic_write
from tupe_fairseq.finetune.experiment import Experiment
from tupe_fairseq.finetune.fine_tuning import FineTuning
from tupe_fairseq.finetune.results import (
    NO_BETTER,
    Results,
    Tested,
    baseline_row,
    best_run,
    options,
    origin_of,
    score_table,
)
from tupe_fairseq.results.page import (
    class_table,
    page,
    percent,
    table,
    training,
    unequal,
    unequal_table,
    write_page,
)
from tupe_fairseq.results.scores import (
    Predicted,
    flat,
    joined,
    measure,
    metric_cells,
    prediction_rows,
    with_intervals,
)

_TEST = "test"
_BASELINE = "The baseline of a fold comes from the rows that its model learns from."
_MEANS = " It predicts their mean, which differs between folds, so its correlation means nothing."


def write_folds(
    folder: str,
    settings: dict[str, Any],
    results: dict[Experiment, Results],
    finals: dict[Experiment, dict[str, Tested]],
) -> str:
    """Write results.json, results.md and predictions.tsv of all folds; returns the table."""
    experiments, of_folds = list(finals), [one[_TEST] for one in finals.values()]
    task = experiments[0].data.task
    best = {one: best_run(results[one], task) for one in experiments}
    pooled = _pooled([one.best for one in of_folds])
    in_all = set.intersection(*(set(one.seeds) for one in of_folds))
    seeds = {seed: _pooled([one.seeds[seed] for one in of_folds]) for seed in sorted(in_all)}
    answers, predicts = zip(*(task.kind.baseline(one.data) for one in experiments))
    baseline = joined([predict(_TEST) for predict in predicts])
    least = measure(task, Predicted(baseline, pooled.targets))
    metrics = with_intervals(task, pooled)
    score = metrics[task.selection]
    folds = [
        {"fold": one.fold, "rows": one.data.rows, "run": best[one].name}
        | {name: results[one][best[one]].get(name) for name in ("versions", "machine")}
        | {"metrics": measure(task, finals[one][_TEST].best)}
        for one in experiments
    ]
    summary = {
        "task": task.name,
        "selection": task.selection,
        "settings": settings,
        "description": task.to_record(),
        "unequal": unequal(
            {str(run): training(x) for of in results.values() for run, x in of.items()}
        ),
        "score": score["value"],
        "baseline_score": least[task.selection],
        "metrics": metrics,
        "seeds": {seed: measure(task, one) for seed, one in seeds.items()},
        "folds": folds,
    }
    label = "the best run of each fold"
    each = [
        {"fold": one["fold"], "rows": one["rows"][_TEST], **metric_cells(one["metrics"])}
        | {"run": one["run"]}
        for one in folds
    ]
    learned, chosen = (
        " to ".join(map(str, sorted({min(counts), max(counts)})))
        for counts in ([one["rows"][x] for one in folds] for x in ("train", "valid"))
    )
    parts = [
        f"# {task.name}, {len(folds)} folds",
        f"{origin_of(settings)} Times 100.",
        f"Each of the {len(pooled.targets)} rows is predicted once, by a model that has not seen "
        f"it. A fold's model learns from {learned} rows; epoch, rate and best run are chosen on "
        f"{chosen} others.",
        options(settings),
        "## All rows",
        *score_table(
            task, label, metrics, seeds, baseline_row(task, list(dict.fromkeys(answers)), least)
        ),
        f"**Report** {METRICS[task.selection].label} {percent(score['value'], score['interval'])}, "
        f"by {label}, as predictions.tsv has it."
        if score["interval"]
        else "",
        f"{_BASELINE}{_MEANS * (not task.labels)}",
        NO_BETTER * ((score["value"] or 0) <= least[task.selection] < 1),
        "## Each fold, by its best run",
        table(each),
    ]
    if task.labels:
        summary["classes"] = class_scores(task.labels, *map(flat, pooled))
        parts += ["## Each class", class_table(summary["classes"])]
    _write_predictions(folder, best)
    text = page([*parts, *unequal_table(summary["unequal"])])
    write_page(folder, summary, text)
    return text


def _pooled(parts: list[Predicted]) -> Predicted:
    return Predicted(*map(joined, zip(*parts)))


def _write_predictions(folder: str, best: dict[Experiment, FineTuning]) -> None:
    """predictions.tsv: the rows of all folds in the order of the user's file."""
    rows = [
        {**row, "fold": one.fold}
        for one, run in best.items()
        for row in prediction_rows(run.path(f"predictions-{_TEST}.tsv"))
    ]
    with atomic_write(os.path.join(folder, "predictions.tsv")) as file:
        write = row_writer(".tsv", file, [*rows[0]])
        for row in sorted(rows, key=lambda row: int(row["row"])):
            write(row)
