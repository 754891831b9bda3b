"""Draws the final losses of a comparison, and their differences, with 95% intervals."""

import os
from collections.abc import Sequence
from typing import Any

from tupe_fairseq.compare.aggregate import differences
from tupe_fairseq.plots import canvas


def write_final_losses(results: dict[str, Any], folder: str) -> str:
    """Draw a line for each scheme: dots for the seeds, a bar for the interval of their mean.

    Args:
        results (dict): the content of results.json.
        folder (str): where final_loss.png goes.
    Returns:
        str: its path.
    """
    path = os.path.join(folder, "final_loss.png")
    canvas.save_png(_draw(results), path, dpi=130)
    return path


def _draw(results: dict[str, Any]):
    """For each size the losses on the left, and the differences to the baseline on the right."""
    archs = list(dict.fromkeys(row["arch"] for row in results["summary"]))
    rows = [[row for row in results["summary"] if row["arch"] == arch] for arch in archs]
    heights = [1.6 + 0.3 * len(own) for own in rows]
    figure = canvas.new_figure(11, sum(heights))
    panels = figure.subplots(len(archs), 2, squeeze=False, height_ratios=heights, sharey="row")
    for arch, own, (left, right) in zip(archs, rows, panels):
        runs = [run for run in results["runs"] if run["arch"] == arch]
        of_baseline = _of(runs, results["baseline"])
        for place, row in enumerate(own):
            of_scheme = _of(runs, row["scheme"])
            losses = [run["final_loss"] for run in of_scheme if run["diverged"] is None]
            draw_row(left, place, losses, row["final_loss"])
            if row["scheme"] != results["baseline"]:
                paired = list(differences(of_scheme, of_baseline).values())
                draw_row(right, place, paired, row["difference"])
        left.set_yticks(range(len(own)), [scheme_name(row) for row in own])
        left.set_ylim(len(own) - 0.5, -0.5)  # both: the axis is shared
        left.set_xlabel("final validation loss, bits per masked token")
        left.set_title(arch, loc="left")
        right.axvline(0, color="#777777", linewidth=0.8, zorder=0)
        right.set_xlabel(f"difference to {results['baseline']} with the same seed")
        for panel in (left, right):
            panel.grid(alpha=0.25, axis="x")
    return figure


def _of(runs: Sequence[dict[str, Any]], scheme: str) -> list[dict[str, Any]]:
    return [run for run in runs if run["scheme"] == scheme]


def draw_row(
    panel,
    place: float,
    values: list[float],
    found: dict[str, Any] | None,
    colour: str = canvas.COLOURS[0],
) -> None:
    """A dot for each seed, and the interval of their mean.

    Args:
        panel (matplotlib.axes.Axes): where.
        place (float): the height.
        values (list of float): of the seeds.
        found (dict or None): their :func:`tupe_fairseq.compare.aggregate.spread`.
        colour (str): of both.
    """
    panel.plot(values, [place] * len(values), "o", color=colour, alpha=0.4, markersize=4)
    if found is not None and found["margin95"] is not None:
        style = {"fmt": "|", "color": colour, "markersize": 11, "capsize": 3}
        panel.errorbar([found["mean"]], [place], xerr=[found["margin95"]], **style)


def scheme_name(row: dict[str, Any]) -> str:
    """The label of a row, with the number of seeds."""
    count = len(row["seeds"]) - len(row["diverged"])
    return f"{row['scheme']} (diverged)" if not count else f"{row['scheme']} (n = {count})"
