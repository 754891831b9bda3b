"""tupe-encode's flags."""

import argparse
import os

from tupe_fairseq.command_flags.arguments import in_range
from tupe_fairseq.command_flags.given_paths import can_be_output
from tupe_fairseq.command_flags.model_flags import add_model_flags, check_model_flags
from tupe_fairseq.command_flags.row_flags import (
    STANDARD_INPUT,
    add_input_flags,
    check_input_flags,
)
from tupe_fairseq.files.names import MEAN, POOLING_NAMES, VECTOR_FILES, VECTORS


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-encode",
        description="Write a vector for each row of a file of texts, or of pairs: float32, rows by "
        "width, in the order of the rows. The model is a pre-trained or a fine-tuned tupe_roberta, "
        "whose head is left out. Texts longer than the model takes are cut, and counted. "
        "Interrupted and given again, the command goes on where it was. The checkpoint is read "
        "without running any code that it contains.",
        epilog="example: tupe-encode checkpoints/checkpoint_best.pt texts.csv --data data-bin "
        "--output-file vectors.npy",
    )
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="pre-trained or fine-tuned")
    add(
        "input",
        metavar="INPUT",
        help=".tsv, .csv, .jsonl, .conll or .txt (a text in each line), also .gz, .xz, .bz2; or "
        ".parquet",
    )
    add(
        "--output-file",
        required=True,
        metavar="OUT",
        help=f"OUT.npy, or OUT.safetensors with the tensor {VECTORS!r}; a file of this name is "
        "replaced when all is there",
    )
    add(
        "--pooling",
        choices=POOLING_NAMES,
        default=MEAN,
        help="the mean of all tokens, <s> and </s> among them, as sentence-transformers has it; or "
        "the vector of <s>; default %(default)s",
    )
    add(
        "--layer",
        type=int,
        metavar="N",
        help="take the output of the Nth layer, 0 for the embeddings; default: the last",
    )
    add_input_flags(parser)
    add_model_flags(parser)
    return parser


def check(args: argparse.Namespace) -> None:
    """Refuse what is wrong whatever is in the files.

    Raises:
        OSError, ValueError: the message names the flag.
    """
    check_model_flags(args)
    if args.layer is not None:
        in_range("--layer", args.layer, at_least=0)
    ending = os.path.splitext(args.output_file)[1].lower()
    if ending not in VECTOR_FILES:
        raise ValueError(
            f"--output-file {args.output_file} must end in {' or '.join(VECTOR_FILES)}"
        )
    can_be_output("--output-file", args.output_file, [args.checkpoint, args.input])
    if args.input == STANDARD_INPUT:
        raise ValueError("the input must be a file: its rows are counted first")
    check_input_flags(args)
