"""Keeping two runs of a command out of one folder."""

import contextlib
import os


@contextlib.contextmanager
def locked(folder: str):
    """Keep a second process out of a folder for as long as this one works in it.

    Yields the descriptor that holds the lock (None on Windows): a child that is given it keeps
    the folder locked for as long as it lives, should this process be killed.

    Raises:
        ValueError: if another process works in it.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield None
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise ValueError(f"another process works in {folder}") from error
    try:
        yield handle
    finally:
        os.close(handle)
