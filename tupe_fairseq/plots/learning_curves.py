"""Training loss and development score of several runs, epoch by epoch."""

from typing import Any, Dict, List, Optional

import matplotlib.figure
from matplotlib.ticker import MaxNLocator

from tupe_fairseq.plots import canvas


def draw(
    curves: Dict[str, List[Dict[str, Any]]], best: Optional[str], metric: str, title: str
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
    seen = set()
    for name, curve in curves.items():
        rate, is_best = _rate(name), name == best
        style = {"linewidth": 2.6, "zorder": 3} if is_best else {"linewidth": 0.9, "alpha": 0.5}
        label = f"best: {name}" if is_best else None if rate in seen else rate.replace("lr", "lr ")
        seen.update([] if is_best else [rate])
        for key, panel in panels.items():
            epochs = [point["epoch"] for point in curve]
            values = [point[key] for point in curve]
            # one epoch alone would be no line
            panel.plot(
                epochs,
                values,
                color=colour_of[rate],
                marker=".",
                markersize=4,
                label=label,
                **style,
            )
    for panel, name in zip(panels.values(), ("training loss", f"{metric}, times 100")):
        panel.set_xlabel("epoch")
        panel.set_ylabel(name)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(alpha=0.25)
    figure.suptitle(canvas.plain(title))
    handles, labels = panels["loss"].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncol=min(len(labels), 5), frameon=False
    )
    return figure


def _rate(name: str) -> str:
    """The learning rate in the name of a run, with the letters before it."""
    return name.partition("-seed")[0]
