"""Writes the folder of an evaluation: results.json, results.md, errors.csv and figures."""

import logging
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import confusion_matrix

from tupe_fairseq.data.metrics import METRICS, class_scores
from tupe_fairseq.data.rows import row_writer
from tupe_fairseq.evaluation.calibration import calibration
from tupe_fairseq.files import atomic_write
from tupe_fairseq.finetune.results import OF_ROWS, class_table, interval, note_of, percent
from tupe_fairseq.finetune.scoring import Predicted, flat, with_intervals
from tupe_fairseq.labelled.task import Task
from tupe_fairseq.runs.tables import in_cell, markdown_table, page, write_tables

logger = logging.getLogger(__name__)

_MOST_ERRORS = 50  # on the page; errors.csv has all


class Evaluated(NamedTuple):
    """A row: its number in the file, its texts or its words, and the head's outputs for it."""

    number: int
    texts: Sequence[Any]
    logits: np.ndarray


def write_report(
    folder: str,
    about: dict[str, Any],
    task: Task,
    labels: Sequence[Any],
    rows: Sequence[Evaluated],
) -> None:
    """Write the folder; ``about`` says what was evaluated.

    ``labels`` come from :func:`tupe_fairseq.labelled.task_rows.read_label`.
    """
    logits = [row.logits for row in rows]
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
    table = _error_rows(task, predicted, sure, rows)
    pictures = _draw(folder, task, predicted, curve)
    with atomic_write(os.path.join(folder, "errors.csv")) as file:
        write = row_writer(".csv", file, _columns(task))
        for row in table:
            write(row)
    write_tables(folder, results, _page(task, results, table, pictures))
    for name, one in results["metrics"].items():
        within = f"% (95% interval {interval(one)})" if one["interval"] else ""
        logger.info("%s %s%s", METRICS[name].label, percent(one["value"]), within)
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
        number, texts, _ = rows[place]
        prediction, target = (side[place] for side in sides)
        texts = task.kind.texts_of_error(texts, target, prediction)
        text = " / ".join(" ".join(map(str, x)) if isinstance(x, list) else str(x) for x in texts)
        cells = (text, target, prediction, float(f"{size:.4g}"), number)
        table.append(dict(zip(_columns(task), cells)))
    return table


def _draw(folder: str, task: Task, predicted: Predicted, curve: dict | None) -> list[str]:
    """Draw the figures; returns their names."""
    from tupe_fairseq.figures import canvas
    from tupe_fairseq.finetune.figures import of_predictions

    figures = of_predictions(task, predicted, task.name)
    if curve:
        figures["reliability"] = figure = canvas.new_figure(4.6, 4.4)
        panel, bins = figure.subplots(), curve["bins"]
        panel.plot([0, 1], [0, 1], color="#777777", linewidth=0.8)
        panel.bar(
            [one["from"] for one in bins], [one["right"] for one in bins], 0.1, align="edge",
            color=canvas.COLOURS[0], edgecolor="white",
        )  # fmt: skip
        for one in bins:
            place, colour = one["from"] + 0.05, "white" if one["right"] > 0.05 else "black"
            panel.text(place, 0.01, one["number"], ha="center", color=colour, fontsize=7)
        panel.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="share that is right")
        error = percent(curve["expected_calibration_error"])
        panel.set_title(f"expected calibration error {error}%")
    canvas.save_all(figures, folder)
    return [*figures]


def _page(
    task: Task, results: dict[str, Any], table: list[dict[str, Any]], pictures: list[str]
) -> str:
    """results.md."""
    metrics = [
        [METRICS[name].label, percent(one["value"]), interval(one)]
        for name, one in results["metrics"].items()
    ]
    parts = [
        f"# {in_cell(os.path.basename(results['file']))}",
        f"{results['rows']} rows, labels in column {in_cell(results['label'])}; predicted by "
        f"{in_cell(results['checkpoint'])}.",
        f"Left out: {in_cell(results['left_out'])}" if results["left_out"] else "",
        "## Metrics",
        markdown_table(["times 100", "value", "95% interval"], metrics),
        OF_ROWS,
        note_of(results["metrics"]),
    ]
    if classes := results.get("classes"):
        parts += ["## Classes", class_table(classes)]
    parts += [f"![{name}]({name}.png)" for name in pictures if name != "reliability"]
    if "calibration" in results:
        curve = results["calibration"]["raw"]
        keys = ("confidence", "right", "expected_calibration_error")
        header = ["times 100", "mean confidence", "right", "expected calibration error"]
        parts += [
            "## Calibration",
            markdown_table(header, [["raw", *(percent(curve[key]) for key in keys)]]),
            "![reliability](reliability.png)" * ("reliability" in pictures),
        ]
    columns = _columns(task)
    if task.kind.of_words:  # the tags are in the text
        columns = [name for name in columns if name not in ("target", "prediction")]
    rows = [[in_cell(row[name]) for name in columns] for row in table[:_MOST_ERRORS]]
    title = "Wrong with the highest confidence" if task.labels else "Largest differences"
    title += f" ({len(rows)} of {len(table)} rows, all in errors.csv)"
    return page([*parts, f"## {title}", markdown_table(columns, rows)])


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
