"""Lets the memory of batches go back to the system when they are done."""

import contextlib
import ctypes
import sys

_M_MMAP_THRESHOLD = -3  # of glibc's malloc.h
_BLOCK = 1 << 20  # bytes


def return_freed_blocks() -> bool:
    """Give each large block of memory pages of its own, which are the system's again once freed.

    glibc does so only until the first such block is freed, and then keeps blocks of up to 32 MiB
    for itself; batches of many lengths fit into the gaps badly, so that a process grows by half of
    what it needs, and on and on.

    Returns:
        bool: whether this C library can do it; others may not need it.
    """
    if not sys.platform.startswith("linux"):
        return False
    with contextlib.suppress(AttributeError, OSError):  # such as musl's
        return bool(ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _BLOCK))
    return False
