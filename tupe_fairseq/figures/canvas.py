"""Sizes, colours and files, shared by all figures."""

import os

import matplotlib.figure  # before numpy: if both are missing, an error names matplotlib's extra
import numpy as np
from torch import Tensor

from tupe_fairseq.files import atomic_write

DIVERGING, SEQUENTIAL, BY_LAYER = "RdBu_r", "viridis", "plasma"
# for lines: Okabe and Ito's, which colour-blind readers can tell apart
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"]


def new_figure(width: float, height: float) -> matplotlib.figure.Figure:
    """A figure, in inches, that needs no display. Up to a width of 6, a phone shows its text."""
    return matplotlib.figure.Figure(figsize=(width, height), layout="constrained")


def save_png(figure: matplotlib.figure.Figure, path: str, dpi: int) -> None:
    """Write a figure; an existing file stays until the new one is complete."""
    with atomic_write(path, "wb") as file:
        figure.savefig(file, format="png", dpi=dpi)


def save_all(figures: dict[str, matplotlib.figure.Figure], folder: str) -> None:
    """Write the figures beside a results.md."""
    for name, figure in figures.items():
        save_png(figure, os.path.join(folder, f"{name}.png"), dpi=130)


def plain(text: str) -> str:
    """Text escaped so that matplotlib does not read it as a formula."""
    return text.replace("$", r"\$")


def symmetric_limit(values: Tensor) -> float:
    """Half the width of a colour scale around 0.

    It is the 99.5th percentile: a single outlier, such as at [CLS], would make all others pale. NaN
    is left out.
    """
    sizes = np.abs(values.double().numpy())
    return float(np.nanquantile(sizes, 0.995)) or float(np.nanmax(sizes)) or 1.0


def wrapped(count: int, most: int) -> tuple[int, int]:
    """Rows and columns for ``count`` panels, at most ``most`` in a row, in rows of equal length."""
    rows = -(-count // most)
    return rows, -(-count // rows)
