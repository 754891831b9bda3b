"""Runs a reader in a fork of this process, which has imported everything, and watches it."""

import atexit
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# of computing; what waits for something is stopped by the clock, even on a busy machine
SECONDS, MOST_SECONDS = 20, 180
MIB = 1024
_HARD_MIB = 3 * MIB  # beyond this it is killed, to protect the machine
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


class Outcome(NamedTuple):
    """What a trial ended with.

    Args:
        code (int, optional): the exit code, negative for a signal; None: it was stopped.
        output (str): what it printed.
        seconds (float): of computing, its children's as well.
        mib (float): the memory that it took beyond this process's, at most.
    """

    code: int | None
    output: str
    seconds: float
    mib: float


def run_forked(
    call: Callable[[], object], folder: Path, log: Path, most_seconds: float = MOST_SECONDS
) -> Outcome:
    """Call in a fork whose current folder is ``folder``; its output goes to ``log``."""
    computing, before, begin = 0.0, _resident_mib("self"), time.monotonic()
    sys.stdout.flush()
    fork = os.fork()
    if not fork:
        _child(call, folder, log)
    stopped, mib, status = False, 0.0, None
    while status is None:
        done, found, usage = os.wait4(fork, os.WNOHANG)
        if done:
            # what children of the fork took counts, too, unless it was less
            status, mib = found, max(mib, usage.ru_maxrss / 1024 - before)
            computing = usage.ru_utime + usage.ru_stime
            break
        mib = max(mib, _resident_mib(fork) - before)
        if time.monotonic() - begin > most_seconds or mib > _HARD_MIB:
            stopped = True
            _kill_group(fork)
        time.sleep(0.01)
    _kill_group(fork)  # what it has left behind
    code = None
    if not stopped:
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return Outcome(code, log.read_text(errors="replace"), computing, mib)


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file's size and bytes; folders and others by their type alone."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not path.is_symlink():
            found[name] = (path.stat().st_size, path.read_bytes())
        else:
            found[name] = (-1, b"folder" if path.is_dir() else b"other")
    return found


def _child(call: Callable[[], object], folder: Path, log: Path) -> None:
    code = 1
    try:
        os.setsid()
        target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in ((0, nothing), (1, target), (2, target)):
            os.dup2(file, number)
        limit = int(_address_space() + 2 * _HARD_MIB * 2**20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(folder)
        call()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _resident_mib(process) -> float:
    try:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * _PAGE_MIB
    except (OSError, IndexError):
        return 0.0


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
