"""Runs commands, and kills them at a moment that chance has chosen."""

import os
import random
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import results

_POLL = 0.0005  # seconds
_REFUSED = ("another process is using", "another training is using")
_PATIENCE = 60  # seconds
_LONGEST = 900  # seconds


@dataclass(frozen=True)
class Kill:
    """When, and whom.

    Args:
        delay (float): seconds after the start; None while a file is being written.
        file (int): the first, second, ... file that the command begins to write.
        alone (bool): the first process only, not what it has started.
    """

    delay: float | None
    file: int
    alone: bool

    @classmethod
    def chosen(cls, chance: random.Random, duration: float) -> "Kill":
        """A moment within the duration of the whole command, or amid writing a file."""
        delay = chance.uniform(0, 1.05 * duration) if chance.random() < 0.5 else None
        return cls(delay, chance.randint(1, 12), chance.random() < 0.5)

    def __str__(self) -> str:
        when = f"while it writes file {self.file}" if self.delay is None else f"{self.delay:.2f} s"
        return f"{when}, {'alone' if self.alone else 'with its children'}"


@dataclass(frozen=True)
class Ended:
    """How commands ended.

    Args:
        killed (bool): by us; otherwise by themselves.
        code (int): the worst exit code.
        half (tuple of str): files that had been begun and were not complete.
        seconds (float): from start to end.
        refused (int): how often the start was refused, as an earlier process still worked there.
    """

    killed: bool
    code: int
    half: tuple
    seconds: float
    refused: int


def attempt(
    commands: list[list[str]],
    programs: Path,
    out: Path,
    log: Path,
    env: dict[str, str],
    kill: Kill | None = None,
) -> Ended:
    """Run commands in parallel, to their end or until they are killed.

    Args:
        commands (list): their words.
        programs (Path): the folder of the programs.
        out (Path): the folder that they write to.
        log (Path): gets what they print.
        env (dict): their environment.
        kill (Kill): None for never.
    Raises:
        TimeoutError: if they do not end.
    """
    commands = [[str(programs / words[0]), *words[1:]] for words in commands]
    end, refused = time.monotonic() + _PATIENCE, 0
    while True:
        size = log.stat().st_size if log.exists() else 0
        ended = _attempt(commands, out, log, env, kill)
        with open(log, errors="replace") as file:
            file.seek(size)
            said = file.read()
        if ended.killed or not ended.code or not any(words in said for words in _REFUSED):
            return Ended(ended.killed, ended.code, ended.half, ended.seconds, refused)
        refused += 1
        if time.monotonic() > end:
            return ended
        time.sleep(0.2)


def _attempt(commands, out, log, env, kill) -> Ended:
    begun = time.monotonic()
    with open(log, "a") as output:
        processes = [
            subprocess.Popen(
                words, stdout=output, stderr=subprocess.STDOUT, env=env, start_new_session=True
            )
            for words in commands
        ]  # fmt: skip
    killed, files, seen = False, 0, set()
    while any(process.poll() is None for process in processes):
        now = time.monotonic() - begun
        if now > _LONGEST:
            _end(processes)
            raise TimeoutError(f"not finished after {_LONGEST} s: {commands[0]}")
        if kill is not None and not killed:
            if kill.delay is None:
                here = set(results.temporary(out))
                files, seen = files + len(here - seen), here
                due = files >= kill.file
            else:
                due = now >= kill.delay
            if due:
                killed = _kill(processes, kill.alone)
        time.sleep(_POLL if not killed else 0.01)
    seconds = time.monotonic() - begun
    code = max((abs(process.returncode) for process in processes), default=0)
    return Ended(killed, code, tuple(results.temporary(out)), seconds, 0)


def _kill(processes, alone: bool) -> bool:
    if alone:
        # others, such as a second worker, have to end by themselves
        processes[0].kill()
        return True
    _end(processes)
    return True


def _end(processes) -> None:
    for process in processes:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
