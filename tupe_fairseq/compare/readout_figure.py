"""Draws what was read out of the models of a comparison, with 95% intervals."""

import os
from typing import Any

from tupe_fairseq.compare.claims import LOSS
from tupe_fairseq.compare.final_losses import draw_row, scheme_name
from tupe_fairseq.compare.measures import measures
from tupe_fairseq.compare.readouts import PAIRS
from tupe_fairseq.plots import canvas

_MOST_IN_A_ROW = 3


def write_readouts(results: dict[str, Any], folder: str) -> list[str]:
    """Draw a figure for each size: a panel for the minimal pairs and for each task.

    Args:
        results (dict): the content of results.json.
        folder (str): where readouts_ARCH.png goes.
    Returns:
        list of str: the paths; none if nothing was read out.
    """
    paths = []
    for arch in dict.fromkeys(row["arch"] for row in results["summary"]):
        rows = [row for row in results["summary"] if row["arch"] == arch]
        runs = [run for run in results["runs"] if run["arch"] == arch]
        panels = _panels(rows)
        if panels:
            paths.append(os.path.join(folder, f"readouts_{arch}.png"))
            canvas.save_png(_draw(rows, runs, panels), paths[-1], dpi=110)
    return paths


def _panels(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Title to the measures that share a panel: a task with each pooling."""
    panels: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for row in rows for name in row["measures"]):
        task = name.rpartition("/")[0]
        if name == PAIRS:
            panels["minimal pairs, % right"] = [name]
        elif name != LOSS and task != PAIRS:
            panels.setdefault(f"{task}, metric x 100", []).append(name)
    return panels


def _draw(rows: list[dict[str, Any]], runs: list[dict[str, Any]], panels: dict[str, list[str]]):
    height, width = canvas.wrapped(len(panels), _MOST_IN_A_ROW)
    figure = canvas.new_figure(2.5 + 3.2 * width, height * (1.1 + 0.3 * len(rows)))
    axes = figure.subplots(height, width, squeeze=False, sharey=True).ravel()
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    for axis, (title, names) in zip(axes, panels.items()):
        for number, (name, colour) in enumerate(zip(names, canvas.colours(len(names)))):
            for place, row in enumerate(rows):
                found = [measures(run) for run in runs if run["scheme"] == row["scheme"]]
                values = [one[name] for one in found if name in one]
                apart = place + 0.25 * (number - (len(names) - 1) / 2)
                draw_row(axis, apart, values, row["measures"].get(name), colour)
            if len(names) > 1:
                axis.plot([], [], "o", color=colour, label=name.rpartition("/")[2])
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_yticks(range(len(rows)), [scheme_name(row) for row in rows])
        axis.grid(alpha=0.25, axis="x")
        if len(names) > 1:
            axis.legend(fontsize=8)
    axes[0].set_ylim(len(rows) - 0.5, -0.5)
    return figure
