"""Starts a command, sends it a signal, and sees how it ends."""

import atexit
import importlib
import json
import os
import re
import signal
import sys
import threading
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

LIMIT = 5.0  # seconds, of a command of ours and of all that it has started
_LONGEST = 900  # seconds, of a command that nobody ends
_BAR = re.compile(r"\d+%\||\d+(it|line|row|update|text|sentence)s? \[")
# a step that is not in steps.json is made again, whatever lies in work/
_TEMPORARY = (".tmp", ".partial", ".parts", "work")
# as setuptools' scripts; an editable install may be older than a command
_SCRIPT = "import sys; from tupe_fairseq.commands.start import {0}; sys.exit({0}())"


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Args:
        at (float): seconds from its start to the signal.
        seconds (float): from the signal to the end of the command.
        all_seconds (float): to the end of the last of its children.
        code (int): the exit code.
        lines (list of str): what it wrote to stderr after the signal, progress bars left out.
        children (list of str): what is still there after the limit.
        had_children (int): when the signal came.
    """

    at: float
    seconds: float
    all_seconds: float
    code: int
    lines: list[str]
    children: list[str]
    had_children: int


def program(words: list[str]) -> list[str]:
    """The command line of a console script, by its function."""
    if not words[0].startswith("tupe-"):
        return [str(Path(sys.executable).parent / words[0]), *words[1:]]
    return [sys.executable, "-c", _SCRIPT.format(_name(words)), *words[1:]]


def _name(words: list[str]) -> str:
    return words[0][len("tupe-") :].replace("-", "_")


def _forked(words: list[str]) -> None:
    """In a fork of this process, which has imported what takes long: the console script."""
    sys.argv = words
    if words[0].startswith("tupe-"):
        getattr(importlib.import_module("tupe_fairseq.commands.start"), _name(words))()
    else:
        importlib.import_module("fairseq_cli.train").cli_main()


class Process:
    """A command in a session of its own.

    Args:
        words (list of str): the name of a program, and its arguments.
        env (dict): its environment.
        log (Path): gets what it prints, in ``.out`` and ``.err``.
        is_fork (bool): of this process, instead of another Python.
    """

    def __init__(self, words: list[str], env: dict[str, str], log: Path, is_fork: bool):
        self._code: int | None = None
        line = program(words)
        self.pid = os.fork()
        if self.pid:
            return
        try:
            os.setsid()
            # a background job of a shell ignores it, and so would what it starts
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number, ending in ((1, ".out"), (2, ".err")):
                os.dup2(os.open(log.with_suffix(ending), os.O_WRONLY | os.O_CREAT, 0o644), number)
            if not is_fork:
                os.execve(line[0], line, env)
            os.environ.update(env)
            self._end(words)
        finally:
            os._exit(99)

    def _end(self, words: list[str]) -> None:
        """As Python does, but leave all that was imported to the system."""
        code = 0
        try:
            _forked(words)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)
            code = 1
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def handles(self, number: int) -> bool:
        """Whether it has a function of its own for a signal."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
        return False

    def wait(self, seconds: float) -> int | None:
        """The exit code; None if it is still there after so long."""
        end = time.monotonic() + seconds
        while self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                died = os.WIFSIGNALED(status)
                self._code = -os.WTERMSIG(status) if died else os.WEXITSTATUS(status)
            elif time.monotonic() > end:
                return None
            else:
                time.sleep(0.02)
        return self._code


def run(
    words: list[str],
    env: dict[str, str],
    log: Path,
    delay: float | None = None,
    number: int = signal.SIGINT,
    to_group: bool = False,
    is_fork: bool = True,
    limit: float = LIMIT,
) -> Ended:
    """Run a command, and send it a signal.

    Args:
        words, env, log, is_fork: of the :class:`Process`.
        delay (float): seconds before the signal, which begin, if the command is ours, with the
            first of our modules; None for no signal.
        number (int): the signal.
        to_group (bool): to its children, too, as a terminal does.
        limit (float): seconds for the command and all that it has started.
    """
    errors = log.with_suffix(".err")
    errors.touch()
    process = Process(words, env, log, is_fork)
    begun = time.monotonic()
    is_ours = words[0].startswith("tupe-")
    while is_ours and process.wait(0) is None and not process.handles(signal.SIGTERM):
        if time.monotonic() > begun + _LONGEST:
            raise TimeoutError(words)
    code = process.wait(_LONGEST if delay is None else delay)
    if code is not None:
        seconds = time.monotonic() - begun
        return Ended(seconds, 0.0, 0.0, code, [], [], 0)
    size, had = errors.stat().st_size, len(_session(process.pid)) - 1
    sent = time.monotonic()
    os.killpg(process.pid, number) if to_group else os.kill(process.pid, number)
    process.wait(6 * limit)
    seconds = time.monotonic() - sent
    while _session(process.pid) and time.monotonic() < sent + limit:
        time.sleep(0.02)
    all_seconds, left = time.monotonic() - sent, _session(process.pid)
    if left:
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait(_LONGEST)
    with open(errors, encoding="utf-8", errors="replace") as file:
        file.seek(size)
        lines = _lines(file.read())
    return Ended(
        sent - begun, seconds, max(seconds, all_seconds), code, lines, left, had
    )  # fmt: skip


def _session(leader: int) -> list[str]:
    """The command lines of the living processes of a session."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                found.append(f"{folder.name} {' '.join(words)[:100]}")
        except (OSError, ValueError):  # it has just ended
            continue
    return found


def _lines(text: str) -> list[str]:
    lines = (line.split("\r")[-1].replace("\x1b[A", "").strip() for line in text.split("\n"))
    return [line for line in lines if line and not _BAR.search(line)]


def not_whole(out: Path, expected: Path) -> list[str]:
    """The files under their final names that are not what they are to be."""
    found = []
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out)
        is_temporary = any(part.endswith(_TEMPORARY) for part in name.parts)
        if path.is_file() and not is_temporary:
            content = path.read_bytes().replace(bytes(out), bytes(expected))
            if not _is_whole(path, content, expected / name):
                found.append(str(name))
    return found


def _is_whole(path: Path, content: bytes, like: Path) -> bool:
    if like.is_file() and like.read_bytes() == content:
        return True
    # logs grow, and times and folders differ from run to run
    if path.suffix in (".log", ".lock", ".jsonl", ".md", ".sh") or path.name.startswith("."):
        return True
    if path.suffix == ".json":
        try:
            return json.loads(content) is not None
        except ValueError:
            return False
    if path.suffix == ".png":
        return content.endswith(b"IEND\xaeB`\x82")
    if path.suffix == ".pt":
        return zipfile.is_zipfile(path) and zipfile.ZipFile(path).testzip() is None
    return not content and path.name.startswith("lock")
