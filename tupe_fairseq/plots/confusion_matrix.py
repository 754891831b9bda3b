"""Which class is taken for which: a matrix of counts, coloured by the shares of each row."""

import matplotlib.figure
import numpy as np

from tupe_fairseq.plots import canvas

# more numbers would overlap
_MOST_NUMBERS = 15
_LONGEST = 24  # characters of a label


def draw(counts: np.ndarray, labels: list[str], title: str) -> matplotlib.figure.Figure:
    """Draw a matrix.

    Args:
        counts (np.ndarray): (C, C), how often a class (row) was taken for another (column).
        labels (list of str): of the classes.
        title (str): above it.
    """
    classes = len(labels)
    size = max(4.5, 2.5 + 0.42 * classes)
    figure = canvas.new_figure(size + 1.2, size)
    panel = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    # not of equal sides, for which long labels would be cut
    image = panel.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    names = [canvas.plain(short(label)) for label in labels]
    panel.set_xticks(range(classes), names, rotation=0 if _is_brief(names) else 90)
    panel.set_yticks(range(classes), names)
    panel.set_xlabel("prediction")
    panel.set_ylabel("true class")
    panel.set_title(canvas.plain(title))
    if classes <= _MOST_NUMBERS:
        for row, column in np.ndindex(*counts.shape):
            if counts[row, column]:
                # what can be read on it
                colour = "white" if shares[row, column] > 0.55 else "#222222"
                number = str(counts[row, column])
                panel.text(column, row, number, ha="center", va="center", color=colour, fontsize=8)
    figure.colorbar(image, ax=panel, shrink=0.8, label="share of the true class")
    return figure


def short(label: str) -> str:
    """A label on one line, cut if it is long."""
    text = " ".join(label.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "\u2026"


def _is_brief(names: list[str]) -> bool:
    """Whether they fit beside each other."""
    return max(map(len, names)) <= 3 or sum(map(len, names)) <= 30
