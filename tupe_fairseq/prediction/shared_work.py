"""Does chunks on several devices at a time, with the results in order."""

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tupe_fairseq.text.parallel import ordered_map


class _OnItsDevice:
    """In each process that gets a copy: the function for a device of its own."""

    def __init__(self, make: Callable[[str], Callable[[Any], Any]], devices: Sequence[str]):
        self._make = make
        self._devices = devices
        self._taken = multiprocessing.Value("i", 0)
        self._function: Callable[[Any], Any] | None = None

    def __call__(self, item: Any) -> Any:
        if self._function is None:
            with self._taken.get_lock():
                number = self._taken.value
                self._taken.value += 1
            self._function = self._make(self._devices[number])
        return self._function(item)


def map_on_devices(
    make: Callable[[str], Callable[[Any], Any]], items: Iterable[Any], devices: Sequence[str]
) -> Iterator[Any]:
    """What a function gives for items, in a process for each device; one needs no other process.

    Args:
        make (callable): the device -> a function of an item.  It moves a model there, so the model
            is on the CPU before.
        items (iterable): read in this process.
        devices (sequence of str): such as cuda:0, cuda:1.
    Raises:
        OSError: if a process was killed.
    """
    yield from ordered_map(_OnItsDevice(make, devices), items, len(devices))
