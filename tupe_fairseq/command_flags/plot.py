"""tupe-plot's flags."""

import argparse

from tupe_fairseq.command_flags.arguments import in_range
from tupe_fairseq.command_flags.given_paths import (
    can_be_written,
    check_is_checkpoint,
    check_is_file,
    check_is_folder,
)
from tupe_fairseq.data.tokenizer import find_dictionary, places_of
from tupe_fairseq.inference.asked_subjects import heads, labels


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


def check(args: argparse.Namespace) -> None:
    """Refuse what is wrong whatever is in the files.

    Raises:
        OSError, ValueError: the message names the flag.
    """
    in_range("--dpi", args.dpi, at_least=10, at_most=1200)
    can_be_written("--output-dir", args.output_dir)
    if args.length is not None:
        in_range("--length", args.length, at_least=2)
    if args.heads is not None:
        heads(args.heads)
    if args.sentencepiece_model is not None:
        if args.sentences is None and args.sentence is None:
            raise ValueError(
                "--sentencepiece-model is for --sentences or --sentence; give one of them, or drop "
                "it"
            )
        check_is_file("--sentencepiece-model", args.sentencepiece_model)
    if args.sentences is not None:
        check_is_file("--sentences", args.sentences)
    if args.data is not None:
        check_is_folder("--data", args.data)
    labels(args.checkpoints)
    for path in args.checkpoints:
        check_is_checkpoint(path)
        find_dictionary([args.data] if args.data is not None else places_of(path, None))
