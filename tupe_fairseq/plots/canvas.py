"""Moved to figures/canvas.py; still here for those that have not moved."""

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg

from tupe_fairseq.figures.canvas import *  # noqa: F403


def pixels(figure, dpi: int = 80) -> np.ndarray:
    """The figure as uint8 (height, width, 3)."""
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
