"""The figure beside a comparison's results.md: loss by updates."""

from collections.abc import Sequence
from statistics import fmean

from matplotlib.ticker import MaxNLocator

from tupe_fairseq.compare.results import UNIGRAM, Row
from tupe_fairseq.figures import canvas

_COLOURS = (canvas.COLOURS[-1], *canvas.COLOURS[:-1])  # black for the baseline
_MOST = len(_COLOURS) - 1  # curves of a panel beside the baseline's
_LOSS = "validation loss, bits per masked token"


def mean_curve(curves: Sequence[list[dict[str, float]]]) -> tuple[list, list]:
    """The updates at which all seeds were validated, and the mean losses there."""
    points = [{point["updates"]: point["loss"] for point in curve} for curve in curves]
    common = sorted(set.intersection(*map(set, points)))
    return common, [fmean(one[updates] for one in points) for updates in common]


def draw_loss(results: Row, folder: str) -> None:
    """Draw the loss of all schemes, with the baseline in each panel; diverged runs are left out."""
    panels = []
    archs = dict.fromkeys(row["arch"] for row in results["summary"])
    for arch in archs:
        first, *others = [row for row in results["summary"] if row["arch"] == arch]
        groups = [others[n : n + _MOST] for n in range(0, len(others), _MOST)] or [[]]
        panels += [(arch, [first, *group]) for group in groups]
    figure = canvas.new_figure(6, 4.6 * len(panels))
    parts = figure.subfigures(len(panels), 1, squeeze=False)[:, 0]
    for part, (arch, rows) in zip(parts, panels):
        panel = part.subplots()
        for row, colour in zip(rows, _COLOURS):
            own = [r for r in results["runs"] if (r["arch"], r["scheme"]) == (arch, row["scheme"])]
            curves = [run["curve"] for run in own if run["diverged"] is None]
            for curve in curves:
                points = [[point[name] for point in curve] for name in ("updates", "loss")]
                panel.plot(*points, linewidth=0.7, alpha=0.35, color=colour)
            x, y = mean_curve(curves) if curves else ([], [])
            panel.plot(x, y, linewidth=2.2, label=_name(row), color=colour)
        if results["unigram"] is not None:
            panel.axhline(results["unigram"], color="#777777", lw=1, ls="--", label=UNIGRAM)
        panel.set(title=arch if len(archs) > 1 else "", xlabel="updates", ylabel=_LOSS)
        panel.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10]))
        panel.grid(alpha=0.25)
        are_means = any(len(row["seeds"]) > 1 for row in rows)
        title = "mean of the seeds; thin lines: each seed" if are_means else None
        handles = panel.get_legend_handles_labels()
        part.legend(*handles, loc="outside lower center", ncol=2, frameon=False, title=title)
    canvas.save_all({"loss_by_updates": figure}, folder)


def _name(row: Row) -> str:
    count = len(row["seeds"]) - len(row["diverged"])
    seeds = f"{count} seed{'s' * (count > 1)}" if count else "diverged"
    return f"{row['scheme']} ({seeds})"
