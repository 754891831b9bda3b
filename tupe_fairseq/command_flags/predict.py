"""tupe-predict's flags."""

import argparse

from tupe_fairseq.command_flags.given_paths import can_be_output
from tupe_fairseq.command_flags.model_flags import add_model_flags, check_model_flags
from tupe_fairseq.command_flags.row_flags import add_input_flags, check_input_flags
from tupe_fairseq.rows.row_writer import check_ending


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-predict",
        description="Write the rows of a file with what a fine-tuned model predicts for each: "
        "label and probability (classification), score (regression, on the scale of the training "
        "data), labels of a probability above 0.5 and their probabilities (multilabel), tags "
        "(tagging). What it predicts, the vocabulary and the treatment of text are what the files "
        "beside the checkpoint say, or --data. Texts longer than the model takes are cut as in "
        "training, and counted; no row is left out, unless --skip-bad-rows. Interrupted and given "
        "again, the command goes on where it was. The checkpoint is read without running any code "
        "that it contains.",
        epilog="examples: tupe-predict runs/reviews/checkpoint_best.pt new.csv --output-file "
        "labelled.csv; echo 'It is good.' | tupe-predict checkpoint_best.pt -",
    )
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="fine-tuned, by tupe-finetune")
    add(
        "input",
        metavar="INPUT",
        help=".tsv, .csv, .jsonl, .conll or .txt (a text in each line), also .gz, .xz, .bz2; or "
        ".parquet; or - for standard input, a text in each line (pairs: two with a tab between)",
    )
    add(
        "--output-file",
        metavar="OUT",
        help="OUT.tsv, OUT.csv or OUT.jsonl; a file of this name is replaced when all is there; "
        "default: standard output, as .tsv",
    )
    add(
        "--prefix",
        default="",
        metavar="WORD",
        help="put before the names of the columns that are added, for inputs that have columns of "
        "these names",
    )
    add(
        "--label-separator",
        default=",",
        metavar="SIGN",
        help="between several labels in .tsv and .csv; default: a comma",
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
    check_input_flags(args)
    if args.output_file is not None:
        check_ending(args.output_file)
        can_be_output("--output-file", args.output_file, [args.checkpoint, args.input])
