"""tupe-plot's flags."""

import argparse


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
