"""tupe-prepare-task's flags."""

import argparse

from tupe_fairseq.command_flags.encoding_flags import add_encoding_flags, check_encoding_flags
from tupe_fairseq.command_flags.given_task import own_task
from tupe_fairseq.command_flags.own_task_flags import add_file_flags, add_label_flags
from tupe_fairseq.labelled.task_description import KINDS
from tupe_fairseq.rows.endings import ending_of


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-prepare-task",
        description="Turn labelled texts of your own into a folder for tupe-finetune, with the "
        "vocabulary and the text treatment of the pre-training. Files are .tsv, .csv, .jsonl, "
        ".parquet, or .conll for tagging; all but .parquet also .gz, .xz or .bz2.",
        epilog="example: tupe-prepare-task --kind classification --train reviews.csv --text review "
        "--label verdict --pretrain-dir pretrain-data --output-dir reviews",
    )
    parser.add_argument(
        "--kind", required=True, choices=KINDS,
        help="what is predicted: a class, a score, any number of labels for each row; or a tag for "
        "each word",
    )  # fmt: skip
    add_file_flags(parser)
    add_label_flags(parser)
    parser.add_argument(
        "--skip-bad-rows", action="store_true",
        help="leave out and count rows that cannot be used (too few columns, an unknown label, "
        "tags that are not BIO, ...); by default the first one ends the command",
    )  # fmt: skip
    parser.add_argument(
        "--name", metavar="NAME", help="the task's name (default: that of the folder OUT)"
    )
    add_encoding_flags(parser, "the data folder to write")
    return parser


def check(args: argparse.Namespace) -> None:
    """Refuse what is wrong whatever is in the files.

    Raises:
        OSError, ValueError: the message names the flag.
    """
    for path in own_task(args).files.values():
        ending_of(path)
    check_encoding_flags(args)
