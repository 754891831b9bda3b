"""Training loss and development score of several runs, epoch by epoch."""

from typing import Any

import matplotlib.figure
from matplotlib.ticker import MaxNLocator

from tupe_fairseq.plots import canvas


def draw(
    curves: dict[str, list[dict[str, Any]]], best: str | None, metric: str, title: str
) -> matplotlib.figure.Figure:
    """Draw all runs faintly, in a colour for each learning rate, and the best one boldly.

    Args:
        curves (dict): of each run, named lrRATE-seedNUMBER: points with ``epoch``, ``loss`` and
            ``score``.
        best (str, optional): the name of the best run, if there is one.
        metric (str): what the score is, in words.
        title (str): above them.
    """
    figure = canvas.new_figure(10, 4.6)
    rates = list(dict.fromkeys(map(_rate, curves)))
    colour_of = dict(zip(rates, canvas.colours(len(rates))))
    panels = dict(zip(("loss", "score"), figure.subplots(1, 2)))
    labels = {name: _rate(name).replace("lr", "lr ") for name in curves}
    style = {name: {"linewidth": 0.9, "alpha": 0.5} for name in curves}
    if best is not None:
        labels[best], style[best] = f"best: {best}", {"linewidth": 2.6, "zorder": 3}
    for name in sorted(curves, key=lambda name: name == best):  # which is the last in the legend
        colour, epochs = colour_of[_rate(name)], [point["epoch"] for point in curves[name]]
        for key, panel in panels.items():
            known = panel.get_legend_handles_labels()[1]
            label = None if labels[name] in known else labels[name]
            values = [point[key] for point in curves[name]]
            # dots, because a single epoch is no line
            (line,) = panel.plot(epochs, values, ".-", color=colour, label=label, **style[name])
            line.set_markersize(4)
    for panel, name in zip(panels.values(), ("training loss", f"{metric}, development set")):
        panel.set_title(name)
        panel.set_xlabel("epoch")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(alpha=0.25)
    panels["score"].set_ylabel("times 100")
    figure.suptitle(canvas.plain(title))
    handles, labels = panels["loss"].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncol=min(len(labels), 5), frameon=False
    )
    return figure


def _rate(name: str) -> str:
    """The learning rate in the name of a run, with the letters before it."""
    return name.partition("-seed")[0]
