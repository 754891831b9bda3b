"""tupe-plot: draw the position terms and attention of trained models."""

import argparse
import importlib
import logging
import os

from tupe_fairseq.command_flags.plot import check, get_parser
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.plots.subject import NoMeaning

logger = logging.getLogger("tupe-plot")

FIGURES = (
    "position_bias",
    "profile_by_distance",
    "cls",
    "correlations",
    "variance",
    "attention",
)


def main(argv: list[str] | None = None) -> None:
    run_program(get_parser(), run, argv, check=check)


def run(args: argparse.Namespace) -> None:
    """Draw all figures that apply; nothing is written before every model is loaded.

    Raises:
        OSError, ValueError: if an input is absent or wrong.
    """
    # imported late: fairseq and matplotlib take seconds
    from tupe_fairseq.inference.plot_subjects import load_subjects
    from tupe_fairseq.plots import canvas

    subjects = load_subjects(args)

    os.makedirs(args.output_dir, exist_ok=True)
    for name in FIGURES:
        figure = importlib.import_module(f"tupe_fairseq.plots.figures.{name}")
        measured = {}
        for label, subject in subjects.items():
            try:
                measured[label] = figure.measure(subject)
            except NoMeaning as reason:
                logger.info("%s.png: skipped for %s: %s", name, label, reason)
                continue
            left_out = getattr(measured[label], "left_out", "")
            if left_out:
                logger.info("%s.png: one part is skipped for %s: %s", name, label, left_out)
        if measured:
            path = os.path.join(args.output_dir, f"{name}.png")
            canvas.save_png(figure.draw(measured, subjects), path, args.dpi)
            logger.info("wrote %s", path)


if __name__ == "__main__":
    main()
