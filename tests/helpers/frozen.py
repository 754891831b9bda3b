"""What is imported before this stays, so forks of the process need not look through it."""

import atexit
import gc
import os

_PROCESS = os.getpid()


@atexit.register
def _leave():
    """Neither need this process itself, at its end."""
    if os.getpid() == _PROCESS:
        os._exit(0)


gc.collect()
gc.freeze()
