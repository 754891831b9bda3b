"""Runs a fairseq-train command, or one that calls it, and follows its output."""

import contextlib
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable

from tupe_fairseq.programs.with_parent import ends_with_parent

_TAIL = 20  # lines
_PATIENCE = 1.5  # seconds, twice; an interrupted command has 4


class Diverged(Exception):
    """The loss or the gradients of a run are NaN or infinite."""


def train(
    command: list[str],
    log_path: str,
    on_line: Callable[[str], None] = lambda line: None,
    *,
    lock: int | None = None,
    env: dict[str, str] | None = None,
    on_start: Callable[[subprocess.Popen], None] = lambda process: None,
) -> None:
    """Run such a command to its end; if this call is interrupted, the process is ended.

    On Linux it ends also if this process is killed.

    Args:
        command (list of str): the program and its arguments.
        log_path (str): the file to which its output is appended.
        on_line (callable): called with each line that it prints.
        lock (int or None): descriptor of a lock for the process to hold.
        env (dict): environment variables in addition to those of this process.
        on_start (callable): called with the process; for :func:`end` from another thread.
    Raises:
        Diverged: if fairseq stopped because of NaN or infinite values.
        ValueError: if it failed; the message ends with the last lines of the log.
    """
    tail, diverged = deque(maxlen=_TAIL), None
    with (
        open(log_path, "a", encoding="utf-8") as log,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            pass_fds=[] if lock is None else [lock],
            preexec_fn=ends_with_parent(),
        ) as process,
    ):
        try:
            on_start(process)
            for line in process.stdout:
                log.write(line)
                log.flush()
                tail.append(line)
                # fairseq's search for the first bad module can fail too, so look anywhere
                diverged = line.strip() if line.startswith("FloatingPointError") else diverged
                on_line(line)
        except BaseException:
            end(process)
            raise
    if process.returncode:
        if diverged:
            raise Diverged(diverged)
        raise ValueError(
            f"{os.path.basename(command[0])} ended with exit code {process.returncode}; the end of "
            f"{log_path}:\n" + "".join(tail).rstrip()
        )


def end(*processes: subprocess.Popen) -> None:
    """Interrupt them, so that each can end what it has started; then terminate, then kill them.

    A DataLoader's workers look only every 5 seconds whether a terminated fairseq-train is gone.
    """
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            for process in processes:
                process.send_signal(number)
            until = time.monotonic() + _PATIENCE
            for process in processes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0, until - time.monotonic()))
    except BaseException:  # Popen itself does not wait when it is interrupted
        for process in processes:
            process.kill()
            process.wait()
        raise
