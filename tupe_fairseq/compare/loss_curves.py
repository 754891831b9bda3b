"""Draws the loss curves of a comparison as PNG files."""

import os
from typing import Any

from tupe_fairseq.plots import canvas

# black for the baseline; further schemes reuse the colours with other dashes
_COLOURS = (canvas.COLOURS[-1], *canvas.COLOURS[:-1])
_DASHES = ("-", "--", ":")
_END = 0.6  # the share of the updates at which the second panel begins

Curve = tuple[list[float], list[float]]


def write_figures(results: dict[str, Any], folder: str) -> list[str]:
    """Draw the validation loss of all schemes against updates and against training time.

    Args:
        results (dict): the content of results.json.
        folder (str): where loss_by_updates.png and loss_by_time.png go.
    Returns:
        list of str: their paths.
    """
    written = []
    beside = max(run["side_by_side"] for run in results["runs"])
    time_label = "training time in seconds" + (f" ({beside} concurrent runs)" if beside > 1 else "")
    for name, key, label in (
        ("loss_by_updates.png", "updates", "updates"),
        ("loss_by_time.png", "seconds", time_label),
    ):
        written.append(os.path.join(folder, name))
        canvas.save_png(_draw(results, key, label), written[-1], dpi=130)
    return written


def _draw(results: dict[str, Any], key: str, label: str):
    archs = list(dict.fromkeys(row["arch"] for row in results["summary"]))
    figure = canvas.new_figure(11, 5.6 * len(archs))
    for arch, part in zip(archs, figure.subfigures(len(archs), 1, squeeze=False)[:, 0]):
        of_size = {
            **results,
            **{
                name: [found for found in results[name] if found["arch"] == arch]
                for name in ("summary", "runs")
            },
        }
        _draw_size(part, of_size, key, label)
    return figure


def _draw_size(figure, results: dict[str, Any], key: str, label: str) -> None:
    """The two panels of one size and their legend."""
    left, right = figure.subplots(1, 2)
    means = {}
    for number, row in _worst_first(results):
        runs = [run for run in results["runs"] if run["scheme"] == row["scheme"]]
        style = {
            "color": _COLOURS[number % len(_COLOURS)],
            "linestyle": _DASHES[number // len(_COLOURS) % len(_DASHES)],
        }
        mean = mean_curve([run["curve"] for run in runs if run["diverged"] is None], key)
        for panel in (left, right):
            for run in runs:
                _draw_run(panel, run, key, style)
            if mean is not None:
                panel.plot(*mean, linewidth=2.2, label=_legend(row), **style)
        if mean is None:
            left.plot([], [], label=_legend(row), **style)
        else:
            means[row["scheme"]] = mean
    _limits(results, key, left, right)
    title = "its last part"
    if results["baseline"] in means:
        title += " (grey: the baseline's final loss)"
        final = means[results["baseline"]][1][-1]
        for panel in (left, right):
            panel.axhline(final, color="#777777", linewidth=0.8, zorder=0)
    for panel in (left, right):
        panel.set_xlabel(label)
        panel.grid(alpha=0.25, which="both")
    left.set_ylabel("validation loss, bits per masked token")
    left.set_title("the whole run")
    right.set_title(title)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncol=min(len(labels), 4), frameon=False,
        title=_caption(results),
    )  # fmt: skip


def _worst_first(results: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The summary's rows with their places in it, which decide colours; the baseline's is 0."""

    def final(numbered):
        found = numbered[1]["final_loss"]
        return float("inf") if found is None else found["mean"]

    return sorted(enumerate(results["summary"]), key=final, reverse=True)


def mean_curve(curves: list[list[dict[str, float]]], key: str) -> Curve | None:
    """The mean over seeds, at the updates that all of them were validated at.

    Args:
        curves (list of list of dict): points with ``updates``, ``loss`` and ``seconds``.
        key (str): the x axis: updates or seconds.
    Returns:
        tuple of lists: x values, and the loss; None without curves.
    """
    if not curves:
        return None
    by_updates = [{point["updates"]: point for point in curve} for curve in curves]
    common = [u for u in sorted(by_updates[0]) if all(u in points for points in by_updates)]

    def mean(name):
        return [sum(points[u][name] for points in by_updates) / len(curves) for u in common]

    return mean(key), mean("loss")


def _draw_run(panel, run: dict[str, Any], key: str, style: dict[str, Any]) -> None:
    x = [point[key] for point in run["curve"]]
    y = [point["loss"] for point in run["curve"]]
    panel.plot(x, y, linewidth=0.8, alpha=0.45, **style)
    if run["diverged"] is not None and x:
        mark = {"marker": "x", "markersize": 11, "markeredgewidth": 2.5, "zorder": 5}
        panel.plot(x[-1:], y[-1:], color=style["color"], **mark)


def _limits(results: dict[str, Any], key: str, left, right) -> None:
    """The whole runs on a logarithmic scale, or the end, close enough to see differences."""
    whole = [run["curve"] for run in results["runs"] if run["diverged"] is None]
    left.set_yscale("log")
    left.yaxis.set_major_formatter("{x:g}")
    left.yaxis.set_minor_formatter("{x:g}")
    if not whole:
        return
    first = [point for curve in whole for point in curve[:1]]
    end = [
        point
        for curve in whole
        for point in curve
        if point["updates"] >= _END * curve[-1]["updates"]
    ]
    lowest = min(point["loss"] for curve in whole for point in curve)
    left.set_ylim(0.98 * lowest, 1.02 * max(point["loss"] for point in first))
    _fit(right.set_xlim, [point[key] for point in end])
    _fit(right.set_ylim, [point["loss"] for point in end])


def _fit(set_limits, values: list[float]) -> None:
    margin = 0.04 * (max(values) - min(values)) or 0.01 * max(values)
    set_limits(min(values) - margin, max(values) + margin)


def _legend(row: dict[str, Any]) -> str:
    final = row["final_loss"]
    if final is None:
        return f"{row['scheme']}: diverged"
    margin = "" if final["margin95"] is None else f" ± {final['margin95']:.3f}"
    diverged = f" ({len(row['diverged'])} diverged)" if row["diverged"] else ""
    return f"{row['scheme']}: {final['mean']:.3f}{margin}{diverged}"


def _caption(results: dict[str, Any]) -> str:
    arch = results["summary"][0]["arch"]
    counts = sorted({len(row["seeds"]) for row in results["summary"]})
    if counts == [1]:
        return f"{arch}: final loss of one seed (too few for a conclusion)"
    seeds = " or ".join(map(str, counts))
    return (
        f"{arch}: mean of {seeds} seeds (thin: each seed), with the final loss and half of its 95% "
        "interval"
    )
