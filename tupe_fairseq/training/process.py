"""Running a fairseq-train command and following what it prints."""

import os
import subprocess
from collections import deque
from typing import Callable, Dict, List, Optional

_TAIL = 20  # lines
_PATIENCE = 10  # seconds


class Diverged(Exception):
    """The loss or the gradients of a run are no numbers any more."""


def train(
    command: List[str],
    log_path: str,
    on_line: Callable[[str], None],
    *,
    lock: Optional[int] = None,
    env: Optional[Dict[str, str]] = None,
    on_start: Callable[[subprocess.Popen], None] = lambda process: None,
) -> None:
    """Run a command of fairseq-train to its end; whatever stops this call ends the process, too.

    Args:
        command (list of str): its words.
        log_path (str): the file to which all that it prints is appended.
        on_line (callable): called with each line that it prints.
        lock (int or None): descriptor of a lock that the process is to hold while it lives.
        env (dict): environment variables beside those of this process.
        on_start (callable): called with the process; for :func:`end` from another thread.
    Raises:
        Diverged: if fairseq gave up because of numbers that are none.
        ValueError: if it failed; the message ends with the last lines of the log.
    """
    tail, diverged = deque(maxlen=_TAIL), None
    with open(log_path, "a", encoding="utf-8") as log, subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
        pass_fds=[] if lock is None else [lock],
    ) as process:
        try:
            on_start(process)
            for line in process.stdout:
                log.write(line)
                log.flush()
                tail.append(line)
                # fairseq's search for the first bad module fails in its turn, so anywhere
                diverged = line.strip() if line.startswith("FloatingPointError") else diverged
                on_line(line)
        except BaseException:
            end(process)
            raise
    if process.returncode:
        if diverged:
            raise Diverged(diverged)
        raise ValueError(
            f"fairseq-train ended with exit code {process.returncode}; the end of {log_path}:\n"
            + "".join(tail).rstrip()
        )


def end(process: subprocess.Popen) -> None:
    """Ask it to end, make it end; Popen itself does not wait when it is interrupted."""
    process.terminate()
    try:
        process.wait(_PATIENCE)
    except BaseException:
        process.kill()
        process.wait()
