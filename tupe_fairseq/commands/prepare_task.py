"""tupe-prepare-task: turn files of one's own into data for fine-tuning."""

import argparse
import logging
from typing import List, Optional

from tupe_fairseq.commands import arguments
from tupe_fairseq.commands.own_task_flags import add_file_flags, add_label_flags, own_task
from tupe_fairseq.commands.prepared_task import (
    add_encoding_flags,
    check_encoding_flags,
    log_report,
    opened_pretraining,
    output_folder,
)
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.tasks.own_columns import open_files
from tupe_fairseq.tasks.prepare_folder import prepare_folder
from tupe_fairseq.tasks.read_own_task import read_own_task
from tupe_fairseq.tasks.task_description import KINDS

logger = logging.getLogger("tupe-prepare-task")


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


def main(argv: Optional[List[str]] = None) -> None:
    run_program(get_parser(), run, argv, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Prepare the task.

    Raises:
        OSError, ValueError: if an argument, an input or the output folder is wrong.
    """
    check_encoding_flags(args)
    options = own_task(args)
    pretrained, max_positions = opened_pretraining(args)
    files = open_files(options)
    sources = options.record()
    arguments.can_be_written("--output-dir", args.output_dir)
    with output_folder(args.output_dir):
        report = prepare_folder(
            options.name,
            sources,
            lambda: read_own_task(options, files),
            pretrained,
            args.output_dir,
            max_positions,
            args.workers,
        )
    log_report(logger, report)


if __name__ == "__main__":
    main()
