"""tupe-prepare-glue: turn the official GLUE files into data for fairseq's sentence_prediction."""

import argparse
import logging
import os
from typing import List, Optional

from tupe_fairseq.command_flags.prepare_glue import get_parser
from tupe_fairseq.commands.prepared_task import (
    check_encoding_flags,
    log_report,
    opened_pretraining,
    output_folder,
)
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS, GlueTask, task_named
from tupe_fairseq.glue.official import official_files
from tupe_fairseq.glue.prepare import prepare_task

logger = logging.getLogger("tupe-prepare-glue")


def main(argv: Optional[List[str]] = None) -> None:
    run_program(get_parser(), run, argv, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Prepare the tasks one after the other.

    Raises:
        OSError, ValueError: if an argument, an input or an output folder is wrong.
    """
    check_encoding_flags(args)
    tasks = _tasks(args.tasks)
    if not os.path.isdir(args.glue_dir):
        raise FileNotFoundError(f"--glue-dir {args.glue_dir} is not a folder")
    pretrained, max_positions = opened_pretraining(args)
    for task in tasks:  # all are checked before the first one is prepared, which may take minutes
        official_files(task, args.glue_dir)
    for task in tasks:
        folder = os.path.join(args.output_dir, task.name)
        with output_folder(folder):
            report = prepare_task(
                task, args.glue_dir, pretrained, folder, max_positions, args.workers
            )
        log_report(logger, report)


def _tasks(names: str) -> List[GlueTask]:
    if names.strip() == "ALL":
        return list(GLUE_TASKS.values())
    found = [name.strip() for name in names.split(",") if name.strip()]
    if not found:
        raise ValueError(f"--tasks names no task; give ALL or some of {', '.join(GLUE_TASKS)}")
    return [task_named(name) for name in dict.fromkeys(found)]


if __name__ == "__main__":
    main()
