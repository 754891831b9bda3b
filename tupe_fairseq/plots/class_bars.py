"""Precision, recall and F1 of each class as bars, with the number of its rows."""

from typing import Any

import matplotlib.figure
import numpy as np

from tupe_fairseq.plots import canvas
from tupe_fairseq.plots.confusion_matrix import short

_MEASURES = ("precision", "recall", "f1")


def draw(classes: list[dict[str, Any]], title: str) -> matplotlib.figure.Figure:
    """Draw three bars for each class, from top to bottom.

    Args:
        classes (list of dict): ``label``; ``precision``, ``recall`` and ``f1`` as fractions;
            ``support``, the number of its rows.
        title (str): above them.
    """
    figure = canvas.new_figure(7.5, 1.8 + 0.45 * len(classes))
    panel = figure.subplots()
    places, height = np.arange(len(classes)), 0.26
    for number, (name, colour) in enumerate(zip(_MEASURES, canvas.COLOURS)):
        values = [100 * one[name] for one in classes]
        label = "F1" if name == "f1" else name
        panel.barh(places + (number - 1) * height, values, height, color=colour, label=label)
    names = [f"{short(one['label'])}  ({one['support']})" for one in classes]
    panel.set_yticks(places, map(canvas.plain, names))
    panel.invert_yaxis()
    panel.set_xlim(0, 100)
    panel.set_xlabel("times 100; in brackets, how many there are")
    panel.set_title(canvas.plain(title))
    panel.grid(axis="x", alpha=0.25)
    panel.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncol=len(_MEASURES), frameon=False)
    return figure
