"""Ends a child process when its parent is killed and can no longer end it."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def ends_with_parent() -> Callable[[], None] | None:
    """The ``preexec_fn`` of a Popen; None where the system cannot do it (only Linux can).

    The kernel kills the child when the thread that started it ends, so that thread must be the one
    that waits for the child.
    """
    if not sys.platform.startswith("linux"):
        return None
    # looked up before the fork, after which a child of several threads should do little
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # killed since the fork
            os._exit(1)

    return in_child
