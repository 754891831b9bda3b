"""The figures beside a task's results.md: learning curves, and the best run's predictions."""

import itertools
import logging
import os
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.ticker import MaxNLocator
from sklearn.metrics import ConfusionMatrixDisplay

from tupe_fairseq.data.metrics import METRICS
from tupe_fairseq.figures import canvas
from tupe_fairseq.finetune.fine_tuning import FineTuning, predictions, read_curve
from tupe_fairseq.finetune.results import Results
from tupe_fairseq.finetune.scoring import Predicted, flat, joined
from tupe_fairseq.finetune.settings import Experiment
from tupe_fairseq.labelled.task import Task

logger = logging.getLogger("tupe-finetune")

# more classes would not fit on a page, more numbers would overlap
_MOST_CLASSES, _MOST_NUMBERS = 30, 12
_LONGEST_LABEL = 24


def draw_figures(
    folder: str, results: dict[Experiment, Results], best: dict[Experiment, FineTuning | None]
) -> None:
    """Write learning_curves.png, and for the development set confusion.png or scatter.png.

    For folds the latter shows all rows; ``best`` is empty if some of them have no prediction.
    """
    first, figures = next(iter(results)), {}
    task, last = first.data.task, best.get(first)
    curves = {run: read_curve(run) for runs in results.values() for run in sorted(runs)}
    if any(curves.values()):
        title = f"{task.name}, fine-tuned from {os.path.basename(first.checkpoint)}"
        bold = None if first.fold else last
        figures["learning_curves"] = learning_curves(curves, bold, task, title)
    if last is not None:
        split = "test" if first.fold else "valid"
        parts = [predictions(run, split) for run in best.values()]
        predicted = Predicted(*map(joined, zip(*parts)))
        rows = "all folds, best runs" if first.fold else f"development set, {last.name}"
        figures |= of_predictions(task, predicted, f"{task.name}, {rows}")
    canvas.save_all(figures, folder)
    logger.info("%s: %s", folder, ", ".join(f"{name}.png" for name in figures))


def of_predictions(
    task: Task, predicted: Predicted, title: str
) -> dict[str, matplotlib.figure.Figure]:
    """Figures by name: a scatter plot for scores, a confusion matrix for classes."""
    name = task.kind.figure
    if name is None or task.num_classes > _MOST_CLASSES:
        return {}
    draw = {"scatter": scatter, "confusion": confusion}[name]
    return {name: draw(task, predicted, title)}


def learning_curves(
    curves: dict[FineTuning, list[dict[str, Any]]], best: FineTuning | None, task: Task, title: str
) -> matplotlib.figure.Figure:
    """Loss and score of all runs, a colour for each learning rate, and the best run in bold."""
    figure = canvas.new_figure(10, 4.6)
    panels = dict(zip(("loss", "score"), figure.subplots(1, 2)))
    rates = list(dict.fromkeys(run.lr for run in curves))
    colour_of, labelled = dict(zip(rates, itertools.cycle(canvas.COLOURS))), set()
    for run in sorted(curves, key=lambda run: run == best):  # the best on top
        label = f"best: {run.name}" if run == best else f"lr {run.lr_text}"
        style = {"linewidth": 2.6} if run == best else {"linewidth": 0.9, "alpha": 0.5}
        epochs = [point["epoch"] for point in curves[run]]
        for key, panel in panels.items():
            values = [point[key] for point in curves[run]]
            # dots, because a single epoch is no line
            panel.plot(
                epochs, values, ".-", markersize=5, color=colour_of[run.lr],
                label=None if label in labelled else label, **style,
            )  # fmt: skip
        labelled.add(label)
    panels["loss"].set(title="training", ylabel=task.kind.loss_name)
    panels["score"].set(
        title="development set", ylabel=f"{METRICS[task.selection].label}, times 100"
    )
    for panel in panels.values():
        panel.set_xlabel("epoch")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        panel.grid(alpha=0.25)
    figure.suptitle(canvas.plain(title))
    handles, labels = panels["loss"].get_legend_handles_labels()
    columns = min(len(labels), 5)
    figure.legend(handles, labels, loc="outside lower center", ncol=columns, frameon=False)
    return figure


def confusion(task: Task, predicted: Predicted, title: str) -> matplotlib.figure.Figure:
    """The confusion matrix, as shares of the true class."""
    targets = flat(predicted.targets)
    counts = np.bincount(targets, minlength=task.num_classes)
    names = [canvas.plain(_short(label)) for label in task.labels]
    size = max(4.5, 2.5 + 0.42 * len(names))
    figure = canvas.new_figure(size + 1.6, size)
    panel = figure.subplots()
    brief = max(map(len, names)) <= 3 or sum(map(len, names)) <= 30
    display = ConfusionMatrixDisplay.from_predictions(
        targets, flat(predicted.predictions), labels=range(len(names)), display_labels=names,
        normalize="true", ax=panel, cmap="Blues", values_format=".0%",
        im_kw={"vmin": 0, "vmax": 1}, include_values=len(names) <= _MOST_NUMBERS,
        xticks_rotation=0 if brief else 90, colorbar=False,
    )  # fmt: skip
    panel.set_yticklabels([f"{name} ({count})" for name, count in zip(names, counts)])
    panel.set(xlabel="prediction", ylabel="true class (how many there are)")
    panel.set_aspect("auto")  # with equal sides long labels would be cut
    panel.set_title(canvas.plain(title))
    figure.colorbar(display.im_, ax=panel, shrink=0.8, label="share of the true class")
    return figure


def scatter(task: Task, predicted: Predicted, title: str) -> matplotlib.figure.Figure:
    """A point for each row, and the line of perfect predictions."""
    predictions, targets = predicted
    figure = canvas.new_figure(5.8, 5.5)
    panel = figure.subplots()
    middle = float(np.median(targets))
    panel.axline((middle, middle), slope=1, color="#777777", linewidth=0.8, zorder=0)
    # the more points there are, the more of them hide each other
    alpha = float(np.clip(10 / np.sqrt(len(targets)), 0.1, 0.8))
    panel.scatter(targets, predictions, s=14, alpha=alpha, color=canvas.COLOURS[0], linewidths=0)
    both = np.concatenate([predictions, targets])
    margin = 0.04 * float(np.ptp(both)) or 0.5
    panel.set_ylim(float(both.min()) - margin, float(both.max()) + margin)
    panel.set(xlabel="true score", ylabel="predicted score")
    panel.set_title(canvas.plain(title))
    panel.grid(alpha=0.25)
    return figure


def _short(label: str) -> str:
    text = " ".join(label.split())
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "\u2026"
