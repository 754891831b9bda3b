"""tupe-prepare-glue: turn GLUE's official files into data for fine-tuning."""

import argparse
import logging
import shlex

from tupe_fairseq.cli import arg_types
from tupe_fairseq.cli.printed_commands import checkpoint_of
from tupe_fairseq.cli.shared_flags import Parser, add_vocabulary_flags, vocabulary_files
from tupe_fairseq.labelled.glue import GLUE_TASKS
from tupe_fairseq.prepare import prepare_glue

logger = logging.getLogger("tupe-prepare-glue")


def get_parser() -> Parser:
    parser = Parser(
        prog="tupe-prepare-glue",
        description="Turn GLUE's official files into OUT/TASK folders for tupe-finetune, with the "
        "vocabulary of the pre-training. Tasks that are finished are skipped.",
        epilog="example: tupe-prepare-glue --glue-dir glue_data --pretrain-dir data-bin --tasks "
        "CoLA,SST-2 --output-dir glue-bin",
    )
    add = parser.add_argument
    text = "folder with a folder for each task (CoLA, SST-2, ...), as officially distributed"
    add("--glue-dir", required=True, type=arg_types.folder, metavar="DIR", help=text)
    text = f"ALL, or some of {','.join(GLUE_TASKS)}"
    add("--tasks", required=True, type=_tasks, metavar="NAMES", help=text)
    add_encoding_flags(parser, "folder for the OUT/TASK folders")
    return parser


def add_encoding_flags(parser: argparse.ArgumentParser, output_help: str) -> None:
    """Flags that tupe-prepare-glue and tupe-prepare-task share."""
    add, folder = parser.add_argument, arg_types.folder_with("dict.txt")
    text = "folder with dict.txt and the vocabulary: of tupe-prepare-pretrain, tupe-convert, or of "
    text += "fairseq-preprocess with the vocabulary's files, in it or named below"
    add("--pretrain-dir", required=True, type=folder, metavar="DIR", help=text)
    out = arg_types.no_colon(arg_types.writable)
    add("--output-dir", required=True, type=out, metavar="OUT", help=output_help)
    text = "processes that encode large tasks (default: all cores)"
    add("--workers", type=arg_types.count, metavar="N", help=text)
    add("--overwrite", action="store_true", help="make a finished folder again")
    add_vocabulary_flags(parser)


def main(argv: list[str] | None = None) -> None:
    args = (parser := get_parser()).parse_args(argv)
    vocabulary = vocabulary_files(parser, args)
    for folder in prepare_glue(vocabulary=vocabulary, **vars(args)):
        log_next(logger, folder, args.pretrain_dir)


def log_next(logger: logging.Logger, folder: str, pretrain_dir: str) -> None:
    """Log the command that trains on a folder."""
    command = ["tupe-finetune", "--data", folder, "--checkpoint", checkpoint_of(pretrain_dir)]
    logger.info("next: %s", shlex.join([*command, "--output-dir", "runs"]))


def _tasks(text: str) -> list[str]:
    return list(GLUE_TASKS) if text == "ALL" else arg_types.comma_list(str)(text)
