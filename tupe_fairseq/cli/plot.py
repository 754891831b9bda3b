"""tupe-plot: draw how a model uses positions."""

import logging
import os
from dataclasses import dataclass

from tupe_fairseq.checkpoint.options import ModelOptions
from tupe_fairseq.flags import at_least, comma_list, option, writable

logger = logging.getLogger("tupe-plot")


@dataclass(kw_only=True)
class Options(ModelOptions):
    """Draw the position terms and the attention of a model: position_bias (each head's matrix),
    profile_by_distance (its mean at each relative position), correlations (of words and added
    positions), attention (maps of a sentence). Figures that do not apply to the model are skipped,
    and the reason is logged.

    example: tupe-plot checkpoints --output-dir plots
    """

    output_dir: str = option("folder for the PNGs", writable)
    sentence: str | None = option(
        "for attention", default=None, unset="one from the valid split of --data", metavar="TEXT"
    )
    length: int | None = option(
        "number of positions", at_least(2), None, unset="all, at most 128", metavar="T"
    )
    heads: list[int] | None = option(
        "heads to show, counted from 0", comma_list(at_least(0)), None, unset="all"
    )


def main(options: Options) -> None:
    from tupe_fairseq.figures import attention, position_bias
    from tupe_fairseq.figures.canvas import save_png
    from tupe_fairseq.figures.plot_input import NotApplicable, load

    figures = {
        "position_bias": (position_bias.measure, position_bias.draw),
        "profile_by_distance": (position_bias.measure_profile, position_bias.draw_profile),
        "correlations": (attention.measure_correlations, attention.draw_correlations),
        "attention": (attention.measure, attention.draw),
    }
    heads, sentence = options.heads and sorted(options.heads), options.sentence
    plot_input = load(
        options.checkpoint, options.data, length=options.length, heads=heads, sentence=sentence
    )
    for figure, (measure, draw) in figures.items():
        try:
            measured = measure(plot_input)
        except NotApplicable as reason:
            logger.info("%s.png: skipped: %s", figure, reason)
            continue
        path = os.path.join(options.output_dir, f"{figure}.png")
        save_png(draw(measured, plot_input), path, dpi=120)
        logger.info("wrote %s", path)
