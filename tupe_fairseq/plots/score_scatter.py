"""Predicted scores against the true ones."""

import matplotlib.figure
import numpy as np

from tupe_fairseq.plots import canvas


def draw(predictions: np.ndarray, targets: np.ndarray, title: str) -> matplotlib.figure.Figure:
    """Draw a point for each row, and the line on which all would be right.

    Args:
        predictions (np.ndarray): (N,), on the scale of the targets.
        targets (np.ndarray): (N,).
        title (str): above them.
    """
    figure = canvas.new_figure(5.8, 5.5)
    panel = figure.subplots()
    middle = float(np.median(targets))
    panel.axline((middle, middle), slope=1, color="#777777", linewidth=0.8, zorder=0)
    # the more points there are, the more of them hide each other
    alpha = float(np.clip(10 / np.sqrt(len(targets)), 0.1, 0.8))
    panel.scatter(targets, predictions, s=14, alpha=alpha, color=canvas.COLOURS[0], linewidths=0)
    both = np.concatenate([predictions, targets])
    margin = 0.04 * float(np.ptp(both)) or 0.5
    panel.set_ylim(float(both.min()) - margin, float(both.max()) + margin)
    panel.set_xlabel("true score")
    panel.set_ylabel("predicted score")
    panel.set_title(canvas.plain(title))
    panel.grid(alpha=0.25)
    return figure
