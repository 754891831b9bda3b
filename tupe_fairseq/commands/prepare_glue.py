"""tupe-prepare-glue: turn the official GLUE files into data for fairseq's sentence_prediction."""

import argparse
import logging
import os

from tupe_fairseq.command_flags.prepare_glue import check, get_parser, tasks
from tupe_fairseq.commands.prepared_task import (
    log_report,
    opened_pretraining,
    output_folder,
)
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.glue.prepare import prepare_task

logger = logging.getLogger("tupe-prepare-glue")


def main(argv: list[str] | None = None) -> None:
    run_program(get_parser(), run, argv, check=check, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Prepare the tasks one after the other.

    Raises:
        OSError, ValueError: if an argument, an input or an output folder is wrong.
    """
    pretrained, max_positions = opened_pretraining(args)
    for task in tasks(args.tasks):
        folder = os.path.join(args.output_dir, task.name)
        with output_folder(folder):
            report = prepare_task(
                task, args.glue_dir, pretrained, folder, max_positions, args.workers
            )
        log_report(logger, report)


if __name__ == "__main__":
    main()
