"""What the commands that prepare a task share: checks of the flags, table of the result."""

import argparse
import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

from tupe_fairseq.files.lock import locked
from tupe_fairseq.files.names import REPORT
from tupe_fairseq.files.record import check_record
from tupe_fairseq.text.losses import unknown_pieces
from tupe_fairseq.text.pretrain_dir import PretrainDir

# in a line of the table; report.json has all
_MOST_LISTED = 50


def opened_pretraining(args: argparse.Namespace) -> tuple[PretrainDir, int]:
    """Vocabulary and text treatment, and the length above which rows are counted as too long.

    Raises:
        OSError, ValueError: if the folder is not what it should be.
    """
    pretrained = PretrainDir(args.pretrain_dir)
    recorded = pretrained.tokens_per_sample
    report = os.path.join(args.pretrain_dir, REPORT)
    check_record(recorded, (int, None), report, "settings.tokens_per_sample")
    return pretrained, args.max_positions or recorded or 512


@contextlib.contextmanager
def output_folder(path: str) -> Iterator[None]:
    """Make and lock a folder; if it is new and nothing is written to it, it is removed again.

    Raises:
        OSError: if it cannot be made.
        ValueError: if another process is using it.
    """
    is_new = not os.path.isdir(path)
    os.makedirs(path, exist_ok=True)
    try:
        with locked(path):
            yield
    finally:
        if is_new and not os.listdir(path):
            os.rmdir(path)


def log_report(logger: logging.Logger, report: dict[str, Any]) -> None:
    """Say in a table and in warnings what was read, kept and dropped."""
    for line in _table(report):
        logger.info("%s", line)
    rates = {split: values["unknown_rate"] for split, values in report["splits"].items()}
    for warning in [*report["warnings"], *unknown_pieces(rates, is_learned=False)]:
        logger.warning("warning: %s: %s", report["task"], warning)


def _table(report: dict[str, Any]) -> list[str]:
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


def _counts(values: dict[str, int]) -> str:
    parts = [f"{name}: {count}" for name, count in values.items()]
    more = [f"and {len(parts) - _MOST_LISTED} more"] if len(parts) > _MOST_LISTED else []
    return ", ".join(parts[:_MOST_LISTED] + more) or "-"
