"""Writes the folder of tupe-predict --report: results.json, results.md, errors.csv and figures."""

import logging
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import confusion_matrix

from tupe_fairseq.data.metrics import class_scores
from tupe_fairseq.data.rows import row_writer
from tupe_fairseq.files import atomic_write
from tupe_fairseq.labelled.task import Task
from tupe_fairseq.results.intervals import OVER_ROWS
from tupe_fairseq.results.page import class_table, in_cell, page, percent, table, write_page
from tupe_fairseq.results.scores import Predicted, flat, metric_cells, undefined, with_intervals

logger = logging.getLogger(__name__)

_MOST_ERRORS = 50  # on the page; errors.csv has all
_BINS = 10  # of calibration


class Evaluated(NamedTuple):
    """A row: its number in the file, its texts or its words, its label, the head's outputs."""

    number: int
    texts: Sequence[Any]
    label: Any  # from :func:`tupe_fairseq.labelled.task_rows.read_label`
    logits: np.ndarray


def write_evaluation(
    folder: str, about: dict[str, Any], task: Task, rows: Sequence[Evaluated]
) -> None:
    """Write the folder; ``about`` says what was evaluated."""
    logits, labels = [row.logits for row in rows], [row.label for row in rows]
    found = [next(iter(task.kind.predict(x, task).values())) for x in logits]
    predicted = Predicted(*(task.kind.unspell(side, task) for side in (found, labels)))
    results: dict[str, Any] = {**about, "rows": len(rows), "description": task.to_record()}
    results["metrics"] = with_intervals(task, predicted)
    sure = curve = None
    if task.labels:
        sides = list(map(flat, predicted))
        results["classes"] = class_scores(task.labels, *sides)
        if task.kind.figure == "confusion":
            numbers = range(task.num_classes)
            results["confusion"] = confusion_matrix(*sides[::-1], labels=numbers).tolist()
        sure = [task.kind.decisions(x, y) for x, y in zip(logits, predicted.targets)]
        curve = calibration(sure)
        results["calibration"] = {"raw": curve}
    wrong = _error_rows(task, predicted, sure, rows)
    pictures = _draw(folder, task, predicted, curve)
    with atomic_write(os.path.join(folder, "errors.csv")) as file:
        write = row_writer(".csv", file, _columns(task))
        for row in wrong:
            write(row)
    write_page(folder, results, _page(task, results, wrong, pictures))
    for name, text in metric_cells(results["metrics"]).items():
        logger.info("%s, times 100: %s", name, text)
    logger.info("wrote %s", os.path.join(folder, "results.md"))


def _columns(task: Task) -> list[str]:
    """The columns of errors.csv, which is sorted by the fourth."""
    size = "confidence" if task.labels else "difference"
    return ["text", "target", "prediction", size, "row"]


def _error_rows(
    task: Task, predicted: Predicted, sure, rows: Sequence[Evaluated]
) -> list[dict[str, Any]]:
    """The rows of errors.csv; in a tagged sentence, both tags follow a wrong word."""
    sides = [task.kind.spell(side, task) for side in predicted]
    table = []
    for place, size in errors(predicted, sure):
        row = rows[place]
        prediction, target = (side[place] for side in sides)
        texts = task.kind.texts_of_error(row.texts, target, prediction)
        text = " / ".join(" ".join(map(str, x)) if isinstance(x, list) else str(x) for x in texts)
        cells = (text, target, prediction, float(f"{size:.4g}"), row.number)
        table.append(dict(zip(_columns(task), cells)))
    return table


def _draw(folder: str, task: Task, predicted: Predicted, curve: dict | None) -> list[str]:
    """Draw the figures; returns their names."""
    from tupe_fairseq.figures import canvas
    from tupe_fairseq.results.figures import of_predictions, reliability

    figures = of_predictions(task, predicted, task.name)
    figures |= {"reliability": reliability(curve)} if curve else {}
    canvas.save_all(figures, folder)
    return [*figures]


def _page(
    task: Task, results: dict[str, Any], wrong: list[dict[str, Any]], pictures: list[str]
) -> str:
    """results.md."""
    parts = [
        f"# {in_cell(os.path.basename(results['file']))}",
        f"{results['rows']} rows, labels in column {in_cell(results['label'])}; predicted by "
        f"{in_cell(results['checkpoint'])}.",
        f"Left out: {in_cell(results['left_out'])}" if results["left_out"] else "",
        "## Metrics",
        table({"times 100": x, "value": y} for x, y in metric_cells(results["metrics"]).items()),
        OVER_ROWS,
        undefined(results["metrics"]),
    ]
    if classes := results.get("classes"):
        parts += ["## Classes", class_table(classes)]
    parts += [f"![{name}]({name}.png)" for name in pictures if name != "reliability"]
    if "calibration" in results:
        curve = results["calibration"]["raw"]
        keys = {"mean confidence": "confidence", "right": "right"}
        keys["expected calibration error"] = "expected_calibration_error"
        cells = {label: percent(curve[key]) for label, key in keys.items()}
        parts += ["## Calibration", table([{"times 100": "raw", **cells}])]
        parts += ["![reliability](reliability.png)"] if "reliability" in pictures else []
    columns = _columns(task)
    if task.kind.of_words:  # the tags are in the text
        columns = [name for name in columns if name not in ("target", "prediction")]
    shown = [{name: in_cell(row[name]) for name in columns} for row in wrong[:_MOST_ERRORS]]
    title = "Wrong with the highest confidence" if task.labels else "Largest differences"
    title += f" ({len(shown)} of {len(wrong)} rows, all in errors.csv)"
    return page([*parts, f"## {title}", table(shown)])


def errors(
    predicted: Predicted, rows: Sequence[tuple[np.ndarray, np.ndarray]] | None
) -> list[tuple[int, float]]:
    """The indices of wrong rows, and the model's confidence or its error; the worst row first.

    ``rows`` come from ``Kind.decisions``; None for scores.
    """
    if rows is None:
        sizes = np.abs(predicted.predictions - predicted.targets).tolist()
    else:
        sizes = [float(np.max(sure, where=~right, initial=0.0)) for sure, right in rows]
    found = ((place, size) for place, size in enumerate(sizes) if size > 0)
    return sorted(found, key=lambda error: -error[1])


def calibration(rows: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Expected calibration error: the mean distance of confidence and accuracy, over ten bins.

    Guo et al. 2017, Eq. 5, https://arxiv.org/abs/1706.04599
    """
    sure, right = map(np.concatenate, zip(*rows))
    places = np.clip(np.ceil(sure * _BINS).astype(int) - 1, 0, _BINS - 1)
    counts = np.bincount(places, minlength=_BINS)
    sums = [np.bincount(places, weights, minlength=_BINS) for weights in (sure, right)]
    error = np.abs(sums[0] - sums[1]).sum() / len(sure)
    means = [(x / np.maximum(counts, 1)).tolist() for x in sums]
    bins = [
        {"from": n / _BINS, "to": (n + 1) / _BINS, "number": k, "confidence": a, "right": b}
        for n, (k, a, b) in enumerate(zip(counts.tolist(), *means))
    ]
    return {
        "expected_calibration_error": float(error),
        "confidence": float(sure.mean()),
        "right": float(right.mean()),
        "bins": [one for one in bins if one["number"]],
    }
