"""figures/canvas.py, under its old name."""

from tupe_fairseq.figures.canvas import *  # noqa: F403
