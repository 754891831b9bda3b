"""Runs fairseq-train, or a command that calls it: its arguments, its process and its log."""

import argparse
import contextlib
import ctypes
import functools
import glob
import json
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import tupe_fairseq

BEST, LAST = "checkpoint_best.pt", "checkpoint_last.pt"
#: the tag of the record that marks the start of a command in a log
START = "start"
#: this package, for --user-dir
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_COLUMNS = 96
_TAIL = 20  # lines
_PATIENCE = 2  # seconds
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1
_running: set[subprocess.Popen] = set()


def console_script(name: str) -> str:
    """The path of a console script: beside this Python, else on PATH."""
    path = shutil.which(name, path=os.path.dirname(sys.executable)) or shutil.which(name)
    if path is None:
        raise FileNotFoundError(
            f"there is no {name} next to {sys.executable}, nor on PATH; install fairseq and this "
            "package with: pip install 'tupe_fairseq[fairseq]'"
        )
    return path


def as_shell(args: Sequence[str]) -> str:
    """The command as text for a shell; a flag and its value stay on one line."""
    groups: list[str] = []
    for arg in args:
        if arg.startswith("--") or not groups:
            groups.append(shlex.quote(arg))
        else:
            groups[-1] += " " + shlex.quote(arg)
    lines = [groups[0]]
    for group in groups[1:]:
        if len(lines) > 1 and len(lines[-1]) + len(group) < _COLUMNS:
            lines[-1] += " " + group
        else:
            lines.append("    " + group)
    return " \\\n".join(lines)


def parse_training(args: Sequence[str]) -> argparse.Namespace:
    """The options of fairseq-train for these arguments, with the architecture's preset applied.

    Raises ValueError with the message of fairseq-train if that would refuse them.
    """
    from fairseq import options

    tupe_fairseq.register()  # a --user-dir that was imported before fairseq has not done it
    parser = options.get_training_parser()

    def refuse(message: str) -> NoReturn:
        raise ValueError(message)

    parser.error = refuse
    with quiet():
        return options.parse_args_and_arch(parser, list(args))


# ---- The process ------------------------------------------------------------------------------


class Diverged(Exception):
    """The loss or the gradients of a run are NaN or infinite."""


def train(
    command: list[str],
    log_path: str,
    on_line: Callable[[str], None] = lambda line: None,
    *,
    lock: int | None = None,
    env: dict[str, str] | None = None,
) -> None:
    """Run a command to its end. It also ends if this call is interrupted or this process is killed.

    Args:
        log_path: the file to which its output is appended.
        lock: descriptor of a lock that it inherits, see :func:`tupe_fairseq.files.locked`.
        env: environment variables in addition to ours.
    Raises:
        Diverged: if fairseq stopped because of NaN or infinite values.
        ValueError: if it failed; the message has the end of the log.
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
            preexec_fn=functools.partial(_end_with_parent, os.getpid()) if _PRCTL else None,
        ) as process,
    ):
        _running.add(process)
        try:
            for line in process.stdout:
                log.write(line)
                log.flush()
                tail.append(line)
                if line.startswith("FloatingPointError"):  # not always the last line
                    diverged = line.strip()
                on_line(line)
        except BaseException:
            _end(process)
            raise
        finally:
            _running.discard(process)
    if process.returncode and diverged:
        raise Diverged(diverged)
    if process.returncode:
        raise ValueError(
            f"{os.path.basename(command[0])} ended with exit code {process.returncode}; the end of "
            f"{log_path}:\n" + "".join(tail).rstrip()
        )


def end_all() -> None:
    """End all processes that :func:`train` runs in other threads."""
    for process in list(_running):
        _end(process)


def _end(process: subprocess.Popen) -> None:
    """Interrupt a process, so that it can end its own children; kill it if it does not end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
            return


def _end_with_parent(parent: int) -> None:
    """In the new process: have Linux kill it when the thread that started it ends."""
    _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # which was killed in the meantime
        os._exit(1)


def record_of(line: str) -> tuple[str, dict[str, Any]]:
    """The tag and the values of a line in fairseq's log with ``--log-format json``, such as
    ``... | valid | {"epoch": 1, "valid_loss": "8.317"}``.

    The tag is ``START``, ``train_inner`` (every ``--log-interval`` updates), ``train`` or
    ``valid``; "" if the line is none of these.
    """
    match = re.search(rf"\| ({START}|train_inner|train|valid) \| ({{.*)", line)
    try:
        return (match[1], json.loads(match[2])) if match else ("", {})
    except ValueError:  # a line that was cut off
        return "", {}


def records(log_path: str) -> list[tuple[str, dict[str, Any]]]:
    if not os.path.exists(log_path):
        return []
    with open(log_path, encoding="utf-8", errors="replace") as log:
        return [record_of(line) for line in log]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide fairseq's log below warnings."""
    logger = logging.getLogger("fairseq")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def remove_checkpoints(folder: str, keep: str = "") -> None:
    """Remove all checkpoints except ``keep``, and the incomplete ones of killed processes."""
    for path in glob.glob(os.path.join(glob.escape(folder), "checkpoint*.pt*")):
        if os.path.basename(path) != keep:
            os.remove(path)
