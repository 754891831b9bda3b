"""Running a fine-tuning command: its scores, and the tensors that it began with."""

import re
from typing import Callable, List, Optional

from tupe_fairseq.training import process
from tupe_fairseq.training.log import record_of

_LOADED = re.compile(r"\| (loaded (\d+) of (\d+) tensors.*)")


def train(
    command: List[str],
    log_path: str,
    on_score: Callable[[int, float], None],
    metric: str,
    lock: Optional[int],
) -> Optional[str]:
    """Run a command of fairseq-train to its end.

    Args:
        command (list of str): its words.
        log_path (str): the file to which all that it prints is appended.
        on_score (callable): called with epoch and score after each validation.
        metric (str): which score, under fairseq's name.
        lock (int or None): descriptor of a lock that the process is to hold while it lives.
    Returns:
        str: what the model said of the tensors that it loaded, None if it loaded nothing.
    Raises:
        Diverged, ValueError: as :func:`tupe_fairseq.training.process.train`.
    """
    loaded = None

    def follow(line: str) -> None:
        nonlocal loaded
        found = _LOADED.search(line)
        loaded = found.group(1) if found else loaded
        record = record_of(line, "valid")
        if record is not None and f"valid_{metric}" in record:
            on_score(int(record["epoch"]), float(record[f"valid_{metric}"]))

    process.train(command, log_path, follow, lock=lock)
    return loaded
