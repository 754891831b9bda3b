"""A server that the workers of one run of pytest share, and that ends with the last of them.

Whoever uses it holds the writing end of a pipe with a name; the server has the reading end as its
standard input, which ends when nobody holds the other.
"""

import contextlib
import fcntl
import os
import select
import shutil
import tempfile
from pathlib import Path


@contextlib.contextmanager
def shared_server(place, start):
    """Use the server, which the first user starts.

    Args:
        place (Path): a file in a folder of this run, which tells the others where the server is.
        start (callable): gets a new folder with a short path, as sockets need, and the standard
            input of the server; returns when it answers.
    Yields:
        Path: the folder.
    """
    with _locked(place):
        folder, hold = _join(place) or _start(place, start)
    try:
        yield folder
    finally:
        os.close(hold)


def end_if_unused(place, folder):
    """In the server, when its standard input has ended: end, if still nobody uses it."""
    with _locked(place):
        if select.select([0], [], [], 0)[0]:
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)


@contextlib.contextmanager
def _locked(place):
    with open(f"{place}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _join(place):
    with contextlib.suppress(OSError):  # there was none yet, or it has ended
        folder = Path(place.read_text())
        return folder, os.open(folder / "users", os.O_WRONLY | os.O_NONBLOCK)
    return None


def _start(place, start):
    folder = Path(tempfile.mkdtemp())
    os.mkfifo(folder / "users")
    stdin = os.open(folder / "users", os.O_RDONLY | os.O_NONBLOCK)
    hold = os.open(folder / "users", os.O_WRONLY)
    try:
        start(folder, stdin)
    finally:
        os.close(stdin)
    place.write_text(str(folder))
    return folder, hold
