"""Runs work in several processes, with the same results in the same order as in one."""

import collections
import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

_KILLED = "a process was killed, perhaps for lack of memory; {}"
_function = None


def ordered_map(
    function: Callable[[Any], Any], items: Iterable[Any], workers: int
) -> Iterator[Any]:
    """``map`` over several processes, reading ahead by a few items only.

    Args:
        function (callable): each process gets its own copy.
        items (iterable): read in this process.
        workers (int): processes; 1 stays in this one.
    Raises:
        OSError: if a process was killed.
    """
    if workers == 1:
        yield from map(function, items)
        return
    # If the caller stops early, what is in the window is done and not cancelled: it is little.
    window = collections.deque()
    with concurrent.futures.ProcessPoolExecutor(
        workers, mp_context=_context(), initializer=_start, initargs=(function,)
    ) as pool:
        try:
            for item in items:
                with _interrupted_later():  # it may start a process
                    window.append(pool.submit(_call, item))
                if len(window) > 2 * workers:
                    yield window.popleft().result()
            while window:
                yield window.popleft().result()
        except KeyboardInterrupt:
            for process in list(pool._processes.values()):  # what they do may take minutes
                process.terminate()
            raise
        except BrokenProcessPool as error:
            raise ChildProcessError(_KILLED.format("lower --workers")) from error


def in_child(function: Callable[..., Any], *args: Any, killed: str) -> Any:
    """Call a function in its own process, which can be interrupted and returns its memory.

    Args:
        function (callable): what to call; its ValueError is raised again here.
        args: for the function.
        killed (str): what to do if the process is killed, for the message.
    Raises:
        OSError: if the process was killed.
    """
    process, receiver = _started(function, args)
    try:
        good, value = receiver.recv()
        process.join()
    except EOFError as error:
        process.join()
        raise ChildProcessError(_why(process.exitcode, killed)) from error
    except BaseException:
        process.terminate()
        process.join()
        raise
    finally:
        receiver.close()
    if not good:
        raise ValueError(value)
    return value


def _started(function, args):
    context = _context()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, function, args), daemon=True)
    with _interrupted_later():
        process.start()
    sender.close()
    return process, receiver


@contextlib.contextmanager
def _interrupted_later():
    """Hold Ctrl-C and SIGTERM back while a process is forked.

    Python loses an exception that a signal raises while modules do what they do after a fork, and
    leaves the lock of ``logging`` locked, for which the next fork waits for ever.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone is interrupted
        yield
        return
    held, process = [], os.getpid()

    def hold(number, frame):
        if os.getpid() == process:
            held.append(number)
        elif number == signal.SIGTERM:  # a child that its parent ends before it began
            os._exit(1)

    # a signal without a function of Python's ends the process, or does nothing
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in before.items() if callable(handler)}
    for number in before:
        signal.signal(number, hold)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if held:
        signal.raise_signal(held[0])


def _context():
    # fork where possible: otherwise every worker imports torch and needs memory for it
    methods = multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("fork" if "fork" in methods else None)


def _start(function) -> None:
    global _function
    _function = function
    _obey_parent()


def _call(item):
    return _function(item)


def _answer(sender, function, args) -> None:
    _obey_parent()
    try:
        answer = (True, function(*args))
    except ValueError as error:
        answer = (False, str(error))
    except Exception as error:  # of a library; nobody would see it
        answer = (False, f"{type(error).__name__}: {error}")
    sender.send(answer)


def _why(exitcode: int, killed: str) -> str:
    """Why a process gave no answer."""
    if exitcode == -signal.SIGKILL:
        return _KILLED.format(killed)
    if exitcode < 0:  # libraries in C++ have done so
        return f"a process crashed ({signal.Signals(-exitcode).name}); {killed}"
    return f"a process ended with exit code {exitcode}"


def _obey_parent() -> None:
    """Leave Ctrl-C to the parent, and end when the parent ends, even if it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # not the parent's function, which would wait for libraries in C++
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)
