"""Ctrl-C and SIGTERM end a command within seconds, with one line, and with what it has started."""

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

#: seconds to end child processes and to remove half-written files
PATIENCE = 4
_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Terminated(KeyboardInterrupt):
    """SIGTERM came: whatever deals with Ctrl-C deals with it, too."""


class Interruption:
    """The first of the signals that ask a command to end.

    Args:
        program (str): the name of the command, for the line.
        advice (str): the end of the line.
    """

    def __init__(self, program: str, advice: str = ""):
        self.number: int | None = None
        self._program = program
        self._advice = advice
        self._is_told = False

    def is_why(self, error: BaseException) -> bool:
        """Whether it ended the work: what fails after a signal, failed because of it."""
        if self.number is None and isinstance(error, KeyboardInterrupt):
            self.number = signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT
        return self.number is not None

    def tell(self, write: Callable[[str], object]) -> int:
        """Write the line, once; the exit code."""
        if not self._is_told:
            self._is_told = True
            write(f"{self._program}: {_WORDS[self.number]}{self._advice}\n")
        return 128 + self.number

    def leave(self) -> NoReturn:
        """Tell, and end this process when all is tidied up.

        It runs what is to run at the end, but does not take the interpreter down: a library that
        was interrupted amid its import can hang there, where no signal ends it any more.
        """
        code = self.tell(sys.stderr.write)
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # a closed pipe, or a closed stream
                stream.flush()
        os._exit(code)

    def end(self, number: int) -> NoReturn:
        """End this process now; its children notice."""
        self.number = self.number or number
        with contextlib.suppress(OSError):
            # sys.stderr may be in the midst of writing
            self.tell(lambda line: os.write(2, line.encode()))
        os._exit(128 + self.number)


def end_at_once(program: str) -> None:
    """Let signals end this process until :func:`raised` takes over: importing leaves nothing."""
    _handle(lambda number: Interruption(program).end(number))


def ignore() -> None:
    """Let nothing disturb the last moments of a process: its work is done, or its end is told."""
    for number in _obeyed():
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def raised(interruption: Interruption, ends_process: bool) -> Iterator[None]:
    """Raise KeyboardInterrupt at the first signal, so that all is tidied up on the way out.

    Python loses an exception in some places (``__del__``, what is called after a fork), and waits
    for threads when it ends.  Therefore the process ends :data:`PATIENCE` seconds later anyway.

    Args:
        interruption (Interruption): gets the signal.
        ends_process (bool): whether this is all that the process does; otherwise signals are
            handled as before when the block ends.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield
        return

    has_come = False

    def stop(number: int) -> None:
        nonlocal has_come
        if interruption.number is not None:
            return
        interruption.number, has_come = number, True
        signal.signal(signal.SIGALRM, lambda *_: interruption.end(number))
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    alarm = signal.getsignal(signal.SIGALRM)
    before = _handle(stop)
    try:
        yield
    except BaseException:
        if ends_process and has_come:
            interruption.leave()
        raise
    finally:
        if not ends_process:
            if interruption.number is not None:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, alarm)
            for number, handler in before.items():
                signal.signal(number, handler)


def _handle(handle: Callable[[int], None]) -> dict:
    """Handle signals in this process and in none that is forked from it; the handlers before."""
    process = os.getpid()

    def handler(number, frame):
        if os.getpid() != process:  # a child that does not handle it by itself
            os._exit(128 + number)
        handle(number)

    return {number: signal.signal(number, handler) for number in _obeyed()}


def _obeyed() -> list:
    """Without those that this process was told to ignore, as a shell does in the background."""
    return [number for number in _WORDS if signal.getsignal(number) is not signal.SIG_IGN]
