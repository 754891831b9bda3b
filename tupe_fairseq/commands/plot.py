"""tupe-plot: draw the position terms and attention of trained models."""

import argparse
import importlib
import logging
import os
from typing import List, Optional

from tupe_fairseq.commands import arguments
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


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-plot",
        description="Draw the position terms and attention of trained tupe_roberta models, as PNG "
        "files: position_bias (each head's position-to-position matrix), profile_by_distance (its "
        "mean at each relative position), cls (the bias and the attention to and from [CLS]), "
        "correlations (word-word, word-position, position-word, position-position, where "
        "positions are added to the input), variance (what share of each layer's hidden states "
        "position and word explain) and attention (maps of one sentence). Figures that do not "
        "apply to a model are skipped, with the reason in the log. Checkpoints are read without "
        "running any code that they contain.",
        epilog="example: tupe-plot tupe-r/checkpoint_best.pt bert-a/checkpoint_best.pt --data "
        'data-bin --sentence "The cat sat on the mat." --output-dir plots',
    )
    parser.add_argument(
        "checkpoints", nargs="+", metavar="CHECKPOINT", help="one model, or several to compare"
    )
    parser.add_argument("--output-dir", required=True, metavar="DIR", help="folder for the figures")
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="folder with dict.txt and, optionally, a valid split, the SentencePiece "
        "model and report.json (how text was cleaned); default: the checkpoint's folder",
    )
    parser.add_argument(
        "--sentences",
        metavar="FILE",
        help="text file with one sentence per line, for cls, correlations, variance and attention; "
        "default: the valid split of --data",
    )
    parser.add_argument(
        "--sentence",
        metavar="TEXT",
        help="sentence for attention; default: the first one of --sentences",
    )
    parser.add_argument(
        "--length",
        type=int,
        metavar="T",
        help="number of positions to show; text is cut into sequences of this length, or shorter "
        "if there is little text; default: the model's longest sequence, but at most 128",
    )
    parser.add_argument(
        "--heads", metavar="0,1,...", help="attention heads to show, counted from 0; default: all"
    )
    parser.add_argument(
        "--sentencepiece-model",
        metavar="FILE",
        help="default: sentencepiece.bpe.model of --data or of the checkpoint's folder",
    )
    parser.add_argument(
        "--dpi", type=int, default=120, metavar="N", help="pixels per inch; default %(default)s"
    )
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    run_program(get_parser(), run, argv)


def run(args: argparse.Namespace) -> None:
    """Draw all figures that apply; nothing is written before every model is loaded.

    Raises:
        OSError, ValueError: if an input is absent or wrong.
    """
    arguments.in_range("--dpi", args.dpi, at_least=10, at_most=1200)
    if args.sentencepiece_model and args.sentences is None and args.sentence is None:
        raise ValueError(
            "--sentencepiece-model is for --sentences or --sentence; give one of them, or drop it"
        )
    arguments.can_be_written("--output-dir", args.output_dir)
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
