"""tupe-prepare-glue's flags."""

import argparse

from tupe_fairseq.command_flags.encoding_flags import add_encoding_flags, check_encoding_flags
from tupe_fairseq.command_flags.given_paths import check_is_folder
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS, GlueTask, task_named
from tupe_fairseq.glue.official import official_files


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-prepare-glue",
        description="Turn the official GLUE files into OUT/TASK folders for fine-tuning, with the "
        "vocabulary and the text treatment of the pre-training. More tasks can be added to "
        "OUT by later calls; finished ones are skipped.",
        epilog="example: tupe-prepare-glue --glue-dir glue_data --tasks CoLA,SST-2 "
        "--pretrain-dir pretrain-data --output-dir glue",
    )
    parser.add_argument(
        "--glue-dir", required=True, metavar="OFFICIAL",
        help="folder with one folder per task (CoLA, SST-2, ...), as officially distributed",
    )  # fmt: skip
    parser.add_argument(
        "--tasks", required=True, metavar="NAMES",
        help=f"comma-separated, out of {', '.join(GLUE_TASKS)}; or ALL",
    )  # fmt: skip
    add_encoding_flags(parser, "output folder; each task gets OUT/TASK")
    return parser


def check(args: argparse.Namespace) -> None:
    """Refuse what is wrong whatever is in the files.

    Raises:
        OSError, ValueError: the message names the flag.
    """
    found = tasks(args.tasks)
    check_is_folder("--glue-dir", args.glue_dir)
    for task in found:
        official_files(task, args.glue_dir)
    check_encoding_flags(args)


def tasks(names: str) -> list[GlueTask]:
    """Read --tasks."""
    if names.strip() == "ALL":
        return list(GLUE_TASKS.values())
    found = [name.strip() for name in names.split(",") if name.strip()]
    if not found:
        raise ValueError(f"--tasks names no task; give ALL or some of {', '.join(GLUE_TASKS)}")
    return [task_named(name) for name in dict.fromkeys(found)]
