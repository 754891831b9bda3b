"""tupe-extend's flags."""

import argparse
import os

from tupe_fairseq.command_flags.arguments import in_range
from tupe_fairseq.command_flags.given_paths import (
    can_be_output,
    check_is_checkpoint,
    refuse_files_there,
)
from tupe_fairseq.data.tokenizer import find_dictionary, places_of
from tupe_fairseq.files.names import DICTIONARY, MODEL, TABLE_METHODS


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-extend",
        description="Make a checkpoint of this project, pre-trained or fine-tuned, take longer "
        "sequences: OUT/model.pt, with its dictionary, vocabulary and report.json beside it. Only "
        "the table of positions changes, of the position encodings that have one (tupe, learned, "
        "disentangled); of the others only the recorded length. The training state, the "
        "optimizer's as well, is not kept: how to train on is printed. No code is run that the "
        "checkpoint contains.",
        epilog="example: tupe-extend checkpoints/checkpoint_best.pt --data data-bin "
        "--max-positions 2048 --method interpolate --output-dir longer",
    )
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="of tupe_roberta")
    add(
        "--max-positions",
        type=int,
        required=True,
        metavar="N",
        help="the longest sequence in tokens, <s> and </s> included; above the checkpoint's",
    )
    add(
        "--method",
        choices=TABLE_METHODS,
        help="what the rows of new positions are made of, [CLS]'s left as they are: interpolate "
        "spreads the trained rows over the new length, linear in between (and for enformer "
        "stretches its distances); tile repeats them; zero adds zeros. Needed for an encoding with "
        "a table, refused for others",
    )
    add(
        "--data",
        metavar="DIR",
        help="folder with dict.txt, the vocabulary and report.json; what it has not is taken from "
        "the checkpoint's folder; default: the latter",
    )
    add("--output-dir", required=True, metavar="OUT", help="folder to write")
    add("--overwrite", action="store_true", help="replace files of an earlier run")
    return parser


def check(args: argparse.Namespace) -> None:
    """Refuse what is wrong whatever is in the files.

    Raises:
        OSError, ValueError: the message names the flag.
    """
    in_range("--max-positions", args.max_positions, at_least=2, at_most=2**16)
    check_is_checkpoint(args.checkpoint)
    find_dictionary(places_of(args.checkpoint, args.data))
    model = os.path.join(args.output_dir, MODEL)
    can_be_output("--output-dir", model, [args.checkpoint])
    refuse_files_there(args.output_dir, [MODEL, DICTIONARY], args.overwrite)
