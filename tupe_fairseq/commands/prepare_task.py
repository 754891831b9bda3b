"""tupe-prepare-task: turn files of one's own into data for fine-tuning."""

import argparse
import logging

from tupe_fairseq.command_flags.given_task import own_task
from tupe_fairseq.command_flags.prepare_task import check, get_parser
from tupe_fairseq.commands.prepared_task import (
    log_report,
    opened_pretraining,
    output_folder,
)
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.labelled.own_columns import open_files
from tupe_fairseq.labelled.prepare_folder import prepare_folder
from tupe_fairseq.labelled.read_own_task import read_own_task

logger = logging.getLogger("tupe-prepare-task")


def main(argv: list[str] | None = None) -> None:
    run_program(get_parser(), run, argv, check=check, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Prepare the task.

    Raises:
        OSError, ValueError: if an argument, an input or the output folder is wrong.
    """
    options = own_task(args)
    pretrained, max_positions = opened_pretraining(args)
    files = open_files(options)
    sources = options.record()
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
