"""tupe-prepare-glue: turn the official GLUE files into data for fairseq's sentence_prediction."""

import argparse
import logging
import os
from typing import Any, Dict, List, Optional

from tupe_fairseq.commands import arguments
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.files.lock import locked
from tupe_fairseq.files.names import REPORT
from tupe_fairseq.files.record import check_record
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS, GlueTask, task_named
from tupe_fairseq.glue.official import official_files
from tupe_fairseq.glue.prepare import prepare_task
from tupe_fairseq.text.losses import unknown_pieces
from tupe_fairseq.text.pretrain_dir import PretrainDir

logger = logging.getLogger("tupe-prepare-glue")

# <s> a </s> </s> b </s>, with a piece each for a and b
_SMALLEST = 6


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
    parser.add_argument(
        "--pretrain-dir", required=True, metavar="DIR",
        help="folder made by tupe-prepare-pretrain, or by tupe-convert with a vocabulary: "
        "dict.txt, the files of the vocabulary and report.json are read",
    )  # fmt: skip
    parser.add_argument(
        "--output-dir", required=True, metavar="OUT", help="output folder; each task gets OUT/TASK"
    )
    parser.add_argument(
        "--max-positions", type=int, metavar="N",
        help="count the rows of more than N tokens; nothing is cut here (default: the "
        "--tokens-per-sample that DIR was made with, else 512)",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, metavar="N",
        help="processes of fairseq-preprocess for large tasks (default: all cores)",
    )  # fmt: skip
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    run_program(get_parser(), run, argv, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Prepare the tasks one after the other.

    Raises:
        OSError, ValueError: if an argument, an input or an output folder is wrong.
    """
    if args.max_positions is not None and args.max_positions < _SMALLEST:
        raise ValueError(
            f"--max-positions ({args.max_positions}) is below {_SMALLEST}, the shortest pair"
        )
    arguments.in_range("--workers", args.workers, at_least=1)
    tasks = _tasks(args.tasks)
    if not os.path.isdir(args.glue_dir):
        raise FileNotFoundError(f"--glue-dir {args.glue_dir} is not a folder")
    pretrained = PretrainDir(args.pretrain_dir)
    recorded = pretrained.tokens_per_sample
    report = os.path.join(args.pretrain_dir, REPORT)
    check_record(recorded, (int, None), report, "settings.tokens_per_sample")
    max_positions = args.max_positions or recorded or 512
    for task in tasks:  # all are checked before the first one is prepared, which may take minutes
        official_files(task, args.glue_dir)
    for task in tasks:
        folder = os.path.join(args.output_dir, task.name)
        os.makedirs(folder, exist_ok=True)
        with locked(folder):
            report = prepare_task(
                task, args.glue_dir, pretrained, folder, max_positions, args.workers
            )
        for line in _table(report):
            logger.info("%s", line)
        rates = {split: values["unknown_rate"] for split, values in report["splits"].items()}
        for warning in [*report["warnings"], *unknown_pieces(rates, is_learned=False)]:
            logger.warning("warning: %s: %s", task.name, warning)


def _tasks(names: str) -> List[GlueTask]:
    if names.strip() == "ALL":
        return list(GLUE_TASKS.values())
    found = [name.strip() for name in names.split(",") if name.strip()]
    if not found:
        raise ValueError(f"--tasks names no task; give ALL or some of {', '.join(GLUE_TASKS)}")
    return [task_named(name) for name in dict.fromkeys(found)]


def _table(report: Dict[str, Any]) -> List[str]:
    """The report as lines of a table, one per split."""
    over = f"over {report['max_positions']}"
    rows = [(report["task"], "read", "kept", over, "unknown", "labels; dropped; warnings")]
    for split, values in report["splits"].items():
        parts = (_counts(values[name]) for name in ("labels", "dropped", "warnings"))
        unknown = f"{values['unknown_rate']:.2%}"
        numbers = (values["rows_read"], values["rows"], values["too_long"])
        rows.append((split, *map(str, numbers), unknown, "; ".join(parts)))
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        f"{row[0]:<{widths[0]}}  "
        + "  ".join(f"{cell:>{width}}" for cell, width in zip(row[1:5], widths[1:5]))
        + f"  {row[5]}"
        for row in rows
    ]


def _counts(values: Dict[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in values.items()) or "-"


if __name__ == "__main__":
    main()
