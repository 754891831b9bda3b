"""Figures beside a page of results: predictions, their confidence, and learning curves."""

import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import ConfusionMatrixDisplay

from tupe_fairseq.figures import canvas
from tupe_fairseq.labelled.task import Task
from tupe_fairseq.results.page import percent
from tupe_fairseq.results.scores import Predicted, flat

# more classes would not fit on a page, more numbers would overlap
_MOST_CLASSES, _MOST_NUMBERS = 30, 12
_LONGEST_LABEL = 24


def of_predictions(task: Task, predicted: Predicted, title: str) -> dict[str, Figure]:
    """Figures by name: a scatter plot for scores, a confusion matrix for classes."""
    name = task.kind.figure
    if name is None or task.num_classes > _MOST_CLASSES:
        return {}
    draw = {"scatter": scatter, "confusion": confusion}[name]
    return {name: draw(task, predicted, title)}


def confusion(task: Task, predicted: Predicted, title: str) -> Figure:
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


def scatter(task: Task, predicted: Predicted, title: str) -> Figure:
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


def reliability(curve: dict) -> Figure:
    """The share that is right in each bin of :func:`calibration`, and how many there are."""
    figure, bins = canvas.new_figure(4.6, 4.4), curve["bins"]
    panel = figure.subplots()
    panel.plot([0, 1], [0, 1], color="#777777", linewidth=0.8)
    panel.bar(
        [one["from"] for one in bins], [one["right"] for one in bins], 0.1, align="edge",
        color=canvas.COLOURS[0], edgecolor="white",
    )  # fmt: skip
    for one in bins:
        place, colour = one["from"] + 0.05, "white" if one["right"] > 0.05 else "black"
        panel.text(place, 0.01, one["number"], ha="center", color=colour, fontsize=8)
    panel.set(xlim=(0, 1), ylim=(0, 1), ylabel="share that is right")
    panel.set_xlabel("confidence; in each bar: the number of predictions")
    panel.set_title(f"expected calibration error {percent(curve['expected_calibration_error'])}%")
    return figure


def _short(label: str) -> str:
    text = " ".join(label.split())
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "\u2026"
