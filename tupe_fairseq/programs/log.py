"""fairseq's log: reads its JSON lines, and keeps it off the screen."""

import contextlib
import json
import logging
from collections.abc import Iterator
from typing import Any


def record_of(line: str, tag: str) -> dict[str, Any] | None:
    """The numbers of a line such as ``... | valid | {"epoch": 1, "valid_loss": "8.317"}``.

    Args:
        line (str): a line of the log, written with ``--log-format json``.
        tag (str): ``train_inner`` (every ``--log-interval`` updates), ``train`` or ``valid``.
    Returns:
        dict: name to number, mostly as text; None if the line is not such a record.
    """
    _, brace, rest = line.partition(f"| {tag} | {{")
    if not brace:
        return None
    try:
        return json.loads("{" + rest)
    except ValueError:
        return None


@contextlib.contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Show only warnings of these loggers."""
    loggers = [logging.getLogger(name) for name in names]
    before = [one.level for one in loggers]
    try:
        for one in loggers:
            one.setLevel(logging.WARNING)
        yield
    finally:
        for one, level in zip(loggers, before):
            one.setLevel(level)
