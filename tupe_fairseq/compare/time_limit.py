"""When the runs of a call have to stop: --stop-after."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

# seconds before the end, or that share of all, if it is less
_SAVING, _SHARE_TO_SAVE = 40.0, 0.25  # from which a run starts, validates and saves
_ENDING, _SHARE_TO_END = 10.0, 0.1  # from which processes are ended, and results written


class OutOfTime(Exception):
    """The time of this call is over, and runs are left."""


class TimeLimit:
    """The time that a call has from now on.

    fairseq-train is asked to stop by itself some time before the end, since then it validates and
    saves where it is.  What still runs shortly before the end is ended, and resumes from its last
    validation.

    Args:
        seconds (float or None): None: no limit.
        clock (callable): gives the time in seconds.
    """

    def __init__(self, seconds: float | None = None, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._end = None if seconds is None else clock() + seconds
        self._saving = min(_SAVING, _SHARE_TO_SAVE * (seconds or 0.0))
        self._ending = min(_ENDING, _SHARE_TO_END * (seconds or 0.0))

    def left(self) -> float | None:
        """The seconds until runs must have ended; None without a limit."""
        return None if self._end is None else self._end - self._ending - self._clock()

    def to_train(self) -> float | None:
        """The seconds that a run which starts now may train; None without a limit."""
        return None if self._end is None else self._end - self._saving - self._clock()

    @contextlib.contextmanager
    def at_end(self, act: Callable[[], None]) -> Iterator[None]:
        """Act, in another thread, if the time is over before the block is."""
        left = self.left()
        if left is None:
            yield
            return
        timer = threading.Timer(max(0.0, left), act)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
