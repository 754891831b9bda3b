"""Runs work in several processes, with the same results in the same order as in one."""

import collections
import concurrent.futures
import multiprocessing
import os
import signal
import threading
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Callable, Iterable, Iterator

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
    window = collections.deque()
    with concurrent.futures.ProcessPoolExecutor(
        workers, mp_context=_context(), initializer=_start, initargs=(function,)
    ) as pool:
        try:
            for item in items:
                window.append(pool.submit(_call, item))
                if len(window) > 2 * workers:
                    yield window.popleft().result()
            while window:
                yield window.popleft().result()
        except BrokenProcessPool as error:
            raise ChildProcessError(_KILLED.format("lower --workers")) from error
        finally:
            for future in window:
                future.cancel()


def in_child(function: Callable[..., Any], *args: Any, killed: str) -> Any:
    """Call a function in its own process, which can be interrupted and returns its memory.

    Args:
        function (callable): what to call; its ValueError is raised again here.
        args: for the function.
        killed (str): what to do if the process is killed, for the message.
    Raises:
        OSError: if the process was killed.
    """
    context = _context()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, function, args), daemon=True)
    process.start()
    sender.close()
    try:
        good, value = receiver.recv()
    except EOFError as error:
        raise ChildProcessError(_KILLED.format(killed)) from error
    finally:
        process.terminate()
        process.join()
        receiver.close()
    if not good:
        raise ValueError(value)
    return value


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
    sender.send(answer)


def _obey_parent() -> None:
    """Leave Ctrl-C to the parent, and end when the parent ends, even if it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)
