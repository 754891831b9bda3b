"""Running a fairseq-train command and following its log."""

import json
import os
import re
import subprocess
from collections import deque
from typing import Callable, List, Optional

_LOADED = re.compile(r"\| (loaded (\d+) of (\d+) tensors.*)")
_TAIL = 20  # lines
_PATIENCE = 10  # seconds


class Diverged(Exception):
    """The loss or the gradients of a run are no numbers any more."""


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
        Diverged: if fairseq gave up because of numbers that are none.
        ValueError: if it failed; the message ends with the last lines of the log.
    """
    tail, loaded, diverged = deque(maxlen=_TAIL), None, None
    with open(log_path, "a", encoding="utf-8") as log, subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        pass_fds=[] if lock is None else [lock],
    ) as process:
        try:
            for line in process.stdout:
                log.write(line)
                log.flush()
                tail.append(line)
                found = _LOADED.search(line)
                loaded = found.group(1) if found else loaded
                # fairseq's search for the first bad module fails in its turn, so anywhere
                diverged = line.strip() if line.startswith("FloatingPointError") else diverged
                _follow(line, metric, on_score)
        except BaseException:
            _end(process)
            raise
    if process.returncode:
        if diverged:
            raise Diverged(diverged)
        raise ValueError(
            f"fairseq-train ended with exit code {process.returncode}; the end of {log_path}:\n"
            + "".join(tail).rstrip()
        )
    return loaded


def _end(process: subprocess.Popen) -> None:
    """Ask it to end, make it end; Popen itself does not wait when it is interrupted."""
    process.terminate()
    try:
        process.wait(_PATIENCE)
    except BaseException:
        process.kill()
        process.wait()


def _follow(line: str, metric: str, on_score: Callable[[int, float], None]) -> None:
    _, brace, rest = line.partition("| valid | {")
    if brace:
        try:
            record = json.loads("{" + rest)
        except ValueError:
            return
        if f"valid_{metric}" in record:
            on_score(int(record["epoch"]), float(record[f"valid_{metric}"]))
