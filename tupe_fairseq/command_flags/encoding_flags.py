"""The flags of the encoding, which the commands that prepare a task share."""

import argparse
import os


def add_encoding_flags(parser: argparse.ArgumentParser, output_help: str) -> None:
    """Add --pretrain-dir, --output-dir, --max-positions and --workers."""
    parser.add_argument(
        "--pretrain-dir", required=True, metavar="DIR",
        help="folder made by tupe-prepare-pretrain, or by tupe-convert with a vocabulary: "
        "dict.txt, the files of the vocabulary and report.json are read",
    )  # fmt: skip
    parser.add_argument("--output-dir", required=True, metavar="OUT", help=output_help)
    parser.add_argument(
        "--max-positions", type=int, metavar="N",
        help="count the rows of more than N tokens; nothing is cut here (default: the "
        "--tokens-per-sample that DIR was made with, else 512)",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, metavar="N",
        help="processes that split the texts of large tasks into pieces (default: all cores)",
    )  # fmt: skip
