"""Draws the claims of a comparison: their differences in units of what would count."""

import os
from typing import Any

from tupe_fairseq.compare.claims import DOES_NOT, HOLDS, IN_PART, UNKNOWN
from tupe_fairseq.plots import canvas

_COLOURS = {**dict(zip((HOLDS, DOES_NOT, IN_PART), canvas.COLOURS)), UNKNOWN: "#777777"}
_WIDEST = 6.0  # units; an interval that is wider runs out of the figure


def write_claims(results: dict[str, Any], folder: str) -> list[str]:
    """Draw a figure for each size.

    Args:
        results (dict): the content of results.json.
        folder (str): where claims_ARCH.png goes.
    Returns:
        list of str: the paths; none if there is no claim with a number.
    """
    paths = []
    for arch in dict.fromkeys(row["arch"] for row in results["claims"]):
        rows = [
            row
            for row in results["claims"]
            if row["arch"] == arch and row["gain"] is not None and row["amount"] > 0
        ]
        if rows:
            paths.append(os.path.join(folder, f"claims_{arch}.png"))
            canvas.save_png(_draw(rows), paths[-1], dpi=110)
    return paths


def _draw(rows: list[dict[str, Any]]):
    figure = canvas.new_figure(11, 1.2 + 0.34 * len(rows))
    axis = figure.subplots()
    for place, row in enumerate(rows):
        gain, unit, colour = row["gain"], row["amount"], _COLOURS[row["verdict"]]
        mean = gain["mean"] / unit
        if gain["margin95"] is not None:
            margin = gain["margin95"] / unit
            axis.plot([mean - margin, mean + margin], [place, place], color=colour, linewidth=2)
        axis.plot([mean], [place], "o", color=colour, markersize=5)
    shown = [abs(row["gain"]["mean"] / row["amount"]) for row in rows]
    limit = min(max([2.0, *(1.3 * value for value in shown)]), _WIDEST)
    axis.set_xlim(-limit, limit)
    axis.axvspan(1, limit, color="#000000", alpha=0.05, linewidth=0)
    axis.axvline(0, color="#777777", linewidth=0.8, zorder=0)
    axis.axvline(1, color="#777777", linewidth=0.8, linestyle="--", zorder=0)
    axis.set_yticks(range(len(rows)), [canvas.plain(row["claim"]) for row in rows], fontsize=9)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    right = axis.secondary_yaxis("right")
    right.set_yticks(range(len(rows)), [row["verdict"] for row in rows], fontsize=9)
    axis.set_xlabel("difference, in units of the amount that counts (dashed); bar: 95% interval")
    return figure
