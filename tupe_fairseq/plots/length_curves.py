"""Draws a model's loss by the length of samples, and by the position in them."""

from collections.abc import Sequence
from typing import Any

from tupe_fairseq.plots import canvas


def length_curves(name: str, lengths: Sequence[dict[str, Any]]):
    """A figure of two panels: loss at each length, and at each length by position.

    Args:
        name (str): of the model.
        lengths (sequence of dict): of each length as
            :meth:`tupe_fairseq.scoring.loss_by_length.LossAtLength.to_dict` gives it.
    Returns:
        Figure: of matplotlib.
    """
    figure = canvas.new_figure(10, 4.2)
    figure.suptitle(canvas.plain(name))
    left, right = figure.subplots(1, 2)
    sizes = [one["length"] for one in lengths]
    left.plot(sizes, [one["loss"] for one in lengths], marker="o", color=canvas.COLOURS[0])
    logarithmic_lengths(left, sizes)
    left.set_xlabel("tokens of a sample")
    left.set_ylabel("loss of a masked piece, natural logarithm")
    for colour, one in zip(canvas.colours(len(lengths)), lengths):
        bins = [b for b in one["by_position"] if b["loss"] is not None]
        places = [(b["from"] + b["to"]) / 2 for b in bins]
        label = f"samples of {one['length']:,}"
        right.plot(places, [b["loss"] for b in bins], marker=".", color=colour, label=label)
    right.set_xlabel("position in the sample (middle of a bin)")
    right.legend(frameon=False)
    for panel in (left, right):
        panel.grid(alpha=0.25)
    return figure


def logarithmic_lengths(panel, sizes: list[int]) -> None:
    """Give a panel's x axis the lengths as its only ticks, each twice the one before as far."""
    panel.set_xscale("log", base=2)
    panel.set_xticks(sizes, [f"{size:,}" for size in sizes])
    panel.minorticks_off()
