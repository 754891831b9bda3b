"""Applies a function to items in several processes, with the results in order."""

import collections
import contextlib
import itertools
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

_function: Callable[[Any], Any]


def _initialize(function: Callable[[Any], Any]) -> None:
    global _function
    _function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def _call(item: Any) -> Any:
    return _function(item)


@contextlib.contextmanager
def signal_handler(handler: Any) -> Iterator[None]:
    """Handle SIGINT and SIGTERM, in the main thread only: others cannot set a handler."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    before = [signal.signal(number, handler) for number in numbers]
    try:
        yield
    finally:
        for number, previous in zip(numbers, before):
            signal.signal(number, previous)


def _submit(pool: ProcessPoolExecutor, item: Any) -> Future:
    """Defer signals until the pool has started: a half-started pool never ends."""
    signals: list[int] = []
    try:
        with signal_handler(lambda number, _: signals.append(number)):
            return pool.submit(_call, item)
    finally:
        for number in signals[:1]:
            signal.raise_signal(number)


def parallel_map(
    function: Callable[[Any], Any], items: Iterable[Any], workers: int
) -> Iterator[Any]:
    """``map`` in worker processes; at most two items for each worker are read ahead."""
    items = iter(items)
    first = list(itertools.islice(items, 2))
    items = itertools.chain(first, items)
    if workers < 2 or len(first) < 2:
        yield from map(function, items)
        return
    # a forked process need not import anything; macOS's libraries do not survive a fork
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(workers, context, _initialize, (function,)) as pool:
        waiting: collections.deque = collections.deque()
        try:
            for item in items:
                waiting.append(_submit(pool, item))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
