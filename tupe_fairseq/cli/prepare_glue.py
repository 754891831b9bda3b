"""tupe-prepare-glue: turn GLUE's official files into data for fine-tuning."""

import argparse
import logging
import os
import shlex
from typing import Any

from tupe_fairseq.cli import arg_types
from tupe_fairseq.cli.printed_commands import checkpoint_of
from tupe_fairseq.data.glue import GLUE_TASKS, GlueTask, official_files, read_glue

logger = logging.getLogger("tupe-prepare-glue")

# <s> a </s> </s> b </s> with a token for each text
_SHORTEST_PAIR = 6
_MANY_UNKNOWN = 0.01
_MOST_LABELS = 50


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
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
    """The flags that tupe-prepare-task has as well."""
    add, folder = parser.add_argument, arg_types.folder_with("dict.txt")
    text = "folder of tupe-prepare-pretrain, or of tupe-convert with a vocabulary"
    add("--pretrain-dir", required=True, type=folder, metavar="DIR", help=text)
    add("--output-dir", required=True, type=_data_folder, metavar="OUT", help=output_help)
    text = "count the rows of more than N tokens; nothing is cut (default: that of DIR, or 512)"
    add("--max-positions", type=arg_types.at_least(_SHORTEST_PAIR), metavar="N", help=text)
    text = "processes that encode large tasks (default: all cores)"
    add("--workers", type=arg_types.count, default=os.cpu_count() or 1, metavar="N", help=text)


def main(argv: list[str] | None = None) -> None:
    """Prepare the tasks one after the other."""
    args = get_parser().parse_args(argv)
    official = [(task, official_files(task, args.glue_dir)) for task in args.tasks]

    from tupe_fairseq.data.task_data import prepare_folder
    from tupe_fairseq.files import file_sha256

    tokenizer = load_tokenizer(args.pretrain_dir)
    for task, files in official:
        folder = os.path.join(args.output_dir, task.name)
        report = prepare_folder(
            folder,
            {os.path.basename(path): file_sha256(path) for path in files.values()},
            lambda task=task, files=files: _read(task, files),
            tokenizer,
            args.max_positions or tokenizer.max_positions or 512,
            args.workers,
        )
        log_report(logger, report, folder, args.pretrain_dir)


def load_tokenizer(folder: str) -> Any:
    """The Tokenizer of --pretrain-dir."""
    from tupe_fairseq.data.tokenizer import Tokenizer

    try:
        return Tokenizer.load(folder)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"--pretrain-dir {folder} has no vocabulary; give a folder of tupe-prepare-pretrain, "
            "or of tupe-convert with the files of a vocabulary"
        ) from error


def _tasks(text: str) -> list[GlueTask]:
    names = list(GLUE_TASKS) if text == "ALL" else arg_types.comma_list(str)(text)
    for name in names:
        if name not in GLUE_TASKS:
            raise argparse.ArgumentTypeError(f"{name!r} is no task; give {', '.join(GLUE_TASKS)}")
    return [GLUE_TASKS[name] for name in names]


def _data_folder(text: str) -> str:
    if ":" in text:
        raise argparse.ArgumentTypeError(f"{text} has a ':', which separates folders in fairseq")
    return arg_types.writable(text)


def _read(task: GlueTask, files: dict[str, str]) -> tuple[Any, ...]:
    splits = {split: read_glue(task, split, path) for split, path in files.items()}
    missing = [name for split, name in task.files.items() if split not in files]
    warnings = [f"{name} is missing, so there is no submission for it" for name in missing]
    train = splits["train"].labels
    warnings += [f"{label} does not occur in train" for label in task.labels if label not in train]
    return task.task, splits, {"warnings": warnings}


def log_report(
    logger: logging.Logger, report: dict[str, Any], folder: str, pretrain_dir: str
) -> None:
    """Log a table of what was read, kept and dropped, warnings, and the next command."""
    over = f"over {report['max_positions']}"
    table = [[report["task"], "read", "kept", over, "unknown", "labels; dropped; warnings"]]
    for split, values in report["splits"].items():
        counts = "; ".join(_counts(values[name]) for name in ("labels", "dropped", "warnings"))
        numbers = [str(values[name]) for name in ("rows_read", "rows", "too_long")]
        table.append([split, *numbers, f"{values['unknown_rate']:.2%}", counts])
        if values["unknown_rate"] > _MANY_UNKNOWN:
            report["warnings"].append(
                f"{values['unknown_rate']:.1%} of the tokens of {split} are unknown; was the "
                "vocabulary made for such text?"
            )
    widths = [max(map(len, column)) for column in zip(*table)]
    for first, *numbers, counts in table:
        cells = [cell.rjust(width) for cell, width in zip(numbers, widths[1:])]
        logger.info("%s", "  ".join([first.ljust(widths[0]), *cells, counts]))
    for warning in report["warnings"]:
        logger.warning("warning: %s: %s", report["task"], warning)
    command = ["tupe-finetune", "--data", folder, "--checkpoint", checkpoint_of(pretrain_dir)]
    logger.info("next: %s", shlex.join([*command, "--output-dir", "runs"]))


def _counts(values: dict[str, int]) -> str:
    parts = [f"{name}: {count}" for name, count in values.items()]
    more = [f"and {len(parts) - _MOST_LABELS} more"] if len(parts) > _MOST_LABELS else []
    return ", ".join(parts[:_MOST_LABELS] + more) or "-"
