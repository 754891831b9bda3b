"""The flags of the encoding, which the commands that prepare a task share, and their checks."""

import argparse
import os

from tupe_fairseq.command_flags.arguments import in_range
from tupe_fairseq.command_flags.given_paths import can_be_written
from tupe_fairseq.text.pretrain_dir import check_is_pretrained

# <s> a </s> </s> b </s>, with a piece each for a and b
_SMALLEST = 6


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


def check_encoding_flags(args: argparse.Namespace) -> None:
    """Refuse numbers that make no sense, and folders that are not there or cannot be written to.

    Raises:
        OSError, ValueError: the message names the flag.
    """
    if args.max_positions is not None and args.max_positions < _SMALLEST:
        raise ValueError(
            f"--max-positions ({args.max_positions}) is below {_SMALLEST}, the shortest pair"
        )
    in_range("--workers", args.workers, at_least=1)
    check_is_pretrained(args.pretrain_dir)
    can_be_written("--output-dir", args.output_dir)
