"""The figures beside a task's results.md: learning curves, and the best run's predictions."""

import itertools
import logging
import os
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tupe_fairseq.data.metrics import METRICS
from tupe_fairseq.figures import canvas
from tupe_fairseq.finetune.experiment import Experiment
from tupe_fairseq.finetune.fine_tuning import FineTuning, predictions, read_curve
from tupe_fairseq.finetune.results import Results
from tupe_fairseq.labelled.task import Task
from tupe_fairseq.results.figures import of_predictions
from tupe_fairseq.results.scores import Predicted, joined

logger = logging.getLogger("tupe-finetune")


def draw_figures(
    folder: str,
    results: dict[Experiment, Results],
    best: dict[Experiment, FineTuning | None],
    baselines: dict[Experiment, dict[str, Any]],
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
        scores = [baselines[one]["metrics"]["valid"][task.selection] for one in results]
        figures["learning_curves"] = learning_curves(curves, bold, task, title, fmean(scores))
    if last is not None:
        split = "test" if first.fold else "valid"
        parts = [predictions(run, split) for run in best.values()]
        predicted = Predicted(*map(joined, zip(*parts)))
        rows = "all folds, best runs" if first.fold else f"development set, {last.name}"
        figures |= of_predictions(task, predicted, f"{task.name}, {rows}")
    canvas.save_all(figures, folder)
    logger.info("%s: %s", folder, ", ".join(f"{name}.png" for name in figures))


def learning_curves(
    curves: dict[FineTuning, list[dict[str, Any]]],
    best: FineTuning | None,
    task: Task,
    title: str,
    baseline: float,
) -> Figure:
    """Loss and score of all runs, a colour for each learning rate, and the best run in bold."""
    figure = canvas.new_figure(6, 6.6)
    panels = dict(zip(("loss", "score"), figure.subplots(2, 1, sharex=True)))
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
    panels["score"].axhline(100 * baseline, color="#777777", lw=1, ls="--", label="baseline")
    panels["loss"].set(title="training", ylabel=task.kind.loss_name)
    panels["score"].set(
        title="development set",
        ylabel=f"{METRICS[task.selection].label}, times 100",
        xlabel="epoch",
    )
    for panel in panels.values():
        panel.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        panel.grid(alpha=0.25)
    figure.suptitle(canvas.plain(title), fontsize="medium")
    handles, labels = panels["score"].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncol=3, frameon=False)
    return figure
