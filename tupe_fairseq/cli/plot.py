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
        "for correlations and attention",
        default=None,
        unset="one from the valid split of --data",
        metavar="TEXT",
    )  # fmt: skip
    length: int | None = option(
        "number of positions", at_least(2), None, unset="all, at most 128", metavar="T"
    )
    heads: list[int] | None = option(
        "heads to show, counted from 0", comma_list(at_least(0)), None, unset="all"
    )


def main(options: Options) -> None:
    from tupe_fairseq import figures
    from tupe_fairseq.figures.canvas import save_png

    draw = {
        "position_bias": figures.draw_position_bias,
        "profile_by_distance": figures.draw_profile_by_distance,
        "correlations": figures.draw_correlations,
        "attention": figures.draw_attention,
    }
    heads, sentence = options.heads and sorted(options.heads), options.sentence
    plot_input = figures.load(
        options.checkpoint, options.data, length=options.length, heads=heads, sentence=sentence
    )
    for name in draw:
        try:
            figure = draw[name](plot_input)
        except figures.NotApplicable as reason:
            logger.info("%s.png: skipped: %s", name, reason)
            continue
        path = os.path.join(options.output_dir, f"{name}.png")
        save_png(figure, path, dpi=130)
        logger.info("wrote %s", path)
