"""Draws a comparison: loss_by_updates.png."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from matplotlib.ticker import MaxNLocator

from tupe_fairseq.compare.schemes import plain_name
from tupe_fairseq.figures import canvas

_COLOURS = (canvas.COLOURS[-1], *canvas.COLOURS[:-1])  # black for the baseline
_STYLES = ("-", "--", ":", "-.")  # one for each round of the colours
_LOSS = "validation loss, bits per masked token"


def mean_curve(curves: Sequence[list[dict[str, float]]]) -> tuple[list, list]:
    """The updates at which all seeds were validated, and the mean losses there."""
    points = [{point["updates"]: point["loss"] for point in curve} for curve in curves]
    common = sorted(set.intersection(*map(set, points)))
    return common, [fmean(one[updates] for one in points) for updates in common]


def draw(results: dict[str, Any], folder: str) -> None:
    """Draw the loss of all schemes, a panel for each size; diverged runs are left out."""
    archs = list(dict.fromkeys(row["arch"] for row in results["summary"]))
    figure = canvas.new_figure(8.5, 5.6 * len(archs))
    parts = figure.subfigures(len(archs), 1, squeeze=False)[:, 0]
    for part, arch in zip(parts, archs):
        table = [row for row in results["summary"] if row["arch"] == arch]
        panel = part.subplots()
        for number, row in enumerate(table):
            own = [r for r in results["runs"] if (r["arch"], r["scheme"]) == (arch, row["scheme"])]
            curves = [run["curve"] for run in own if run["diverged"] is None]
            colour = _COLOURS[number % len(_COLOURS)]
            style = _STYLES[number // len(_COLOURS) % len(_STYLES)]
            for curve in curves:
                points = [[point[name] for point in curve] for name in ("updates", "loss")]
                panel.plot(*points, linewidth=0.7, alpha=0.35, color=colour, ls=style)
            x, y = mean_curve(curves) if curves else ([], [])
            panel.plot(x, y, linewidth=2.2, label=_name(row), color=colour, ls=style)
        panel.set(title=arch, xlabel="updates", ylabel=_LOSS)
        panel.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10]))
        panel.grid(alpha=0.25)
        title = "mean of the seeds; thin lines: each seed"
        handles = panel.get_legend_handles_labels()
        part.legend(*handles, loc="outside lower center", ncol=3, frameon=False, title=title)
    canvas.save_all({"loss_by_updates": figure}, folder)


def _name(row: dict[str, Any]) -> str:
    count = len(row["seeds"]) - len(row["diverged"])
    seeds = f"{count} seed{'s' * (count > 1)}" if count else "diverged"
    return f"{plain_name(row['scheme'])} ({seeds})"
