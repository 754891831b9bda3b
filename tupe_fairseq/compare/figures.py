"""Draws a comparison: loss_by_updates.png, loss_by_time.png and final.png."""

import os
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from matplotlib.ticker import MaxNLocator

from tupe_fairseq.figures import canvas

_COLOURS = (canvas.COLOURS[-1], *canvas.COLOURS[:-1])  # black for the baseline
_DASHES = ("-", "--", ":")
_END = 0.6  # the share of the updates at which the second panel begins
_MOST_PANELS = 3  # in a row


def draw(results: dict[str, Any], folder: str) -> None:
    """Draw all figures from the content of results.json."""
    parallel = max(run["parallel"] for run in results["runs"])
    time = "training time, seconds" + (f" ({parallel} runs at a time)" if parallel > 1 else "")
    for name, key, label in (("updates", "updates", "updates"), ("time", "seconds", time)):
        figure = draw_curves(results, key, label)
        canvas.save_png(figure, os.path.join(folder, f"loss_by_{name}.png"), dpi=130)
    for arch, table in _sizes(results).items():
        runs = [run for run in results["runs"] if run["arch"] == arch]
        figure = draw_final(table, runs, results["baseline"])
        canvas.save_png(figure, os.path.join(folder, f"final_{arch}.png"), dpi=130)


def _sizes(results: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    archs = dict.fromkeys(row["arch"] for row in results["summary"])
    return {arch: [r for r in results["summary"] if r["arch"] == arch] for arch in archs}


def mean_curve(curves: Sequence[list[dict[str, float]]], key: str) -> tuple[list, list]:
    """x values and losses, the means over seeds at the updates that all were validated at."""
    points = [{point["updates"]: point for point in curve} for curve in curves]
    common = sorted(set.intersection(*map(set, points)))
    return tuple([fmean(one[u][name] for one in points) for u in common] for name in (key, "loss"))


def draw_curves(results: dict[str, Any], key: str, label: str):
    """For each size the whole curves, and their end at a larger scale."""
    sizes = _sizes(results)
    figure = canvas.new_figure(11, 5.4 * len(sizes))
    parts = figure.subfigures(len(sizes), 1, squeeze=False)[:, 0]
    for part, (arch, table) in zip(parts, sizes.items()):
        whole, end = part.subplots(1, 2)
        finite = []
        for number, row in enumerate(table):
            style = {"color": _COLOURS[number % len(_COLOURS)]}
            style["linestyle"] = _DASHES[number // len(_COLOURS) % len(_DASHES)]
            own = [r for r in results["runs"] if (r["arch"], r["scheme"]) == (arch, row["scheme"])]
            good = [run["curve"] for run in own if run["diverged"] is None]
            finite += good
            for panel in (whole, end):
                for run in own:
                    x, y = ([point[name] for point in run["curve"]] for name in (key, "loss"))
                    panel.plot(x, y, linewidth=0.8, alpha=0.4, **style)
                    if run["diverged"] is not None:
                        panel.plot(
                            x[-1:], y[-1:], "x", markersize=10, mew=2.5, color=style["color"]
                        )
                x, y = mean_curve(good, key) if good else ([], [])
                panel.plot(x, y, linewidth=2.2, label=_name(row), **style)
        last = [p for c in finite for p in c if p["updates"] >= _END * c[-1]["updates"]]
        if finite:
            _fit(end.set_xlim, [point[key] for point in last])
            _fit(end.set_ylim, [point["loss"] for point in last])
            _fit(whole.set_ylim, [point["loss"] for curve in finite for point in curve])
        whole.set_title(f"{arch}: the whole runs", loc="left")
        end.set_title(f"from {_END:.0%} of the updates on", loc="left")
        whole.set_ylabel("validation loss, bits per masked token")
        for panel in (whole, end):
            panel.set_xlabel(label)
            panel.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10]))
            panel.grid(alpha=0.25)
        columns = min(len(table), 3)
        title = "mean of the seeds; thin lines: each seed"
        title += "; cross: diverged" * any(row["diverged"] for row in table)
        handles = whole.get_legend_handles_labels()
        part.legend(*handles, loc="outside lower center", ncol=columns, frameon=False, title=title)
    return figure


def _fit(set_limits, values: list[float]) -> None:
    margin = 0.04 * (max(values) - min(values)) or 0.01 * max(values)
    set_limits(min(values) - margin, max(values) + margin)


def _name(row: dict[str, Any]) -> str:
    count = len(row["seeds"]) - len(row["diverged"])
    return f"{row['scheme']} ({f'n = {count}' if count else 'diverged'})"


def draw_final(table: list[dict[str, Any]], runs: list[dict[str, Any]], baseline: str):
    """A panel for each measure of one size: dots for the seeds, bars for 95% intervals."""
    panels = {"final_loss": "final loss, bits per masked token"}
    panels["difference"] = f"difference to {baseline}, bits"
    tasks = dict.fromkeys(name for row in table for name in row["downstream"])
    panels |= {name: f"{name}, metric x 100" for name in tasks if not name.startswith("pairs/")}
    if "pairs" in panels:
        panels["pairs"] = "minimal pairs, % right"
    height, width = canvas.wrapped(len(panels), _MOST_PANELS)
    figure = canvas.new_figure(3 + 3.4 * width, height * (1.2 + 0.32 * len(table)))
    axes = figure.subplots(height, width, squeeze=False, sharey=True).ravel()
    for axis, (name, title) in zip(axes, panels.items()):
        for place, row in enumerate(table):
            own = [r for r in runs if r["scheme"] == row["scheme"] and r["diverged"] is None]
            values = [{**run, **run["downstream"]}.get(name) for run in own]
            values = [value for value in values if value is not None]
            axis.plot(values, [place] * len(values), "o", color="C0", alpha=0.4, markersize=4)
            measure = {**row, **row["downstream"]}.get(name)
            if measure and measure["margin95"] is not None:
                bar = {"fmt": "|", "color": "C0", "markersize": 11, "capsize": 3}
                axis.errorbar([measure["mean"]], [place], xerr=[measure["margin95"]], **bar)
        if name == "difference":
            axis.axvline(0, color="#777777", linewidth=0.8, zorder=0)
        axis.set_xlabel(title)
        axis.grid(alpha=0.25, axis="x")
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    axes[0].set_yticks(range(len(table)), [_name(row) for row in table])
    axes[0].set_ylim(len(table) - 0.5, -0.5)
    figure.suptitle(f"{runs[0]['arch']}: dots are seeds, bars 95% intervals of their mean", size=11)
    return figure
