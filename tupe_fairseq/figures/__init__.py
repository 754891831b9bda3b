"""Figures of a model: each ``draw_...`` takes a :class:`PlotInput` and returns a matplotlib figure.

They write no file; ``tupe-plot`` and ``figure.savefig`` do.
"""

from tupe_fairseq.figures.attention import draw_attention, draw_correlations, draw_terms
from tupe_fairseq.figures.plot_input import NotApplicable, PlotInput, load
from tupe_fairseq.figures.position_bias import draw_position_bias, draw_profile_by_distance

__all__ = [
    "NotApplicable",
    "PlotInput",
    "draw_attention",
    "draw_correlations",
    "draw_position_bias",
    "draw_profile_by_distance",
    "draw_terms",
    "load",
]
