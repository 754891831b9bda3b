"""Locks a folder against a second run of a command."""

import contextlib
import os


@contextlib.contextmanager
def locked(folder: str, wait: bool = False):
    """Keep a second process out of a folder while this one works in it.

    Yields the descriptor that holds the lock (None on Windows): a child process that is
    given it keeps the folder locked until it, too, has ended.

    Args:
        folder (str): the folder.
        wait (bool): wait for another process that is using it, rather than refuse.
    Raises:
        ValueError: if another process is using it, unless ``wait``.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield None
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as error:
        os.close(handle)
        raise ValueError(
            f"another process is using {folder}; wait for it, or give another folder"
        ) from error
    try:
        yield handle
    finally:
        os.close(handle)
