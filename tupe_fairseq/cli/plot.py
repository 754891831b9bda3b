"""tupe-plot: draw how a model uses positions."""

import logging
import os

from tupe_fairseq.cli import arg_types
from tupe_fairseq.cli.shared_flags import Parser, add_user_dir_flag

logger = logging.getLogger("tupe-plot")


def get_parser() -> Parser:
    parser = Parser(
        prog="tupe-plot",
        description="Draw the position terms and the attention of a model: position_bias (each "
        "head's matrix), profile_by_distance (its mean at each relative position), correlations "
        "(of words and added positions), attention (maps of a sentence). Figures that do not apply "
        "to the model are skipped, and the reason is logged.",
        epilog="example: tupe-plot checkpoints/checkpoint_best.pt --data data-bin "
        "--output-dir plots",
    )
    add = parser.add_argument
    add("checkpoint", type=arg_types.checkpoint, metavar="CHECKPOINT", help="the model")
    add("--output-dir", required=True, type=arg_types.writable, metavar="DIR",
        help="folder for the PNGs")  # fmt: skip
    add("--data", type=arg_types.folder, metavar="DIR",
        help="folder with dict.txt and, for text, a vocabulary and a valid split; default: the "
        "checkpoint's folder")  # fmt: skip
    add("--sentence", metavar="TEXT", help="for attention; default: one from the valid split")
    add("--length", type=arg_types.at_least(2), metavar="T",
        help="number of positions; default: all, at most 128")  # fmt: skip
    add("--heads", type=arg_types.comma_list(arg_types.at_least(0)), metavar="0,1,...",
        help="heads to show, counted from 0; default: all")  # fmt: skip
    add_user_dir_flag(parser)
    return parser


def main(argv: list[str] | None = None) -> None:
    args = get_parser().parse_args(argv)
    from tupe_fairseq.figures import attention, position_bias
    from tupe_fairseq.figures.canvas import save_png
    from tupe_fairseq.figures.plot_input import NotApplicable, load

    figures = {
        "position_bias": (position_bias.measure, position_bias.draw),
        "profile_by_distance": (position_bias.measure_profile, position_bias.draw_profile),
        "correlations": (attention.measure_correlations, attention.draw_correlations),
        "attention": (attention.measure, attention.draw),
    }
    heads = args.heads and sorted(args.heads)
    plot_input = load(
        args.checkpoint, args.data, length=args.length, heads=heads, sentence=args.sentence
    )
    for figure, (measure, draw) in figures.items():
        try:
            measured = measure(plot_input)
        except NotApplicable as reason:
            logger.info("%s.png: skipped: %s", figure, reason)
            continue
        path = os.path.join(args.output_dir, f"{figure}.png")
        save_png(draw(measured, plot_input), path, dpi=120)
        logger.info("wrote %s", path)
