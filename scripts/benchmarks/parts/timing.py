"""Times in rounds that alternate between the competitors, and memory."""

import ctypes
import gc
import math
import os
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch

# A GPU's call is far shorter than a clock is exact and a launch takes: as many in a row as take
# this long are one measurement.
GPU_SECONDS = 0.05
MOST_CALLS = 200


class Sample(NamedTuple):
    """The measurements of one competitor."""

    seconds: list[float]
    peak_bytes: int  # above the level before the call, at the peak

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_of(call: Callable[[], object], times: int = 1) -> float:
    """Mean seconds of some calls in a row; one that returns a float has timed itself.

    Such a call is another process's.
    """
    synchronize()
    begin = time.perf_counter()
    owns = [call() for _ in range(times)]
    synchronize()
    if isinstance(owns[0], float):
        return sum(owns) / times
    return (time.perf_counter() - begin) / times


def calls_in_a_row(call: Callable[[], object]) -> int:
    """How many calls one measurement takes: one, and on a GPU some if they are short."""
    if not torch.cuda.is_available():
        return 1
    return min(max(math.ceil(GPU_SECONDS / seconds_of(call)), 1), MOST_CALLS)


def compare(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, Sample]:
    """Times the calls one after the other, ``rounds`` times, after two rounds not counted.

    A temporary slowdown of the machine affects all of them, so compare their ratios.  The
    second round measures memory: by then an optimizer has its state.

    Args:
        calls (dict): name -> what to time.
        rounds (int): number of rounds.
    Returns:
        dict: name -> sample, without those that the GPU's memory does not hold.
    """
    calls = _that_fit(calls)
    peaks, times = {}, {}
    for name, call in calls.items():
        with PeakMemory() as memory:
            call()
        peaks[name], times[name] = memory.bytes, calls_in_a_row(call)
    seconds = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            seconds[name].append(seconds_of(call, times[name]))
    return {name: Sample(seconds[name], peaks[name]) for name in calls}


def _that_fit(calls):
    """Those whose first call, which is not measured, finds enough memory on the GPU."""
    fit = {}
    for name, call in calls.items():
        try:
            call()
        except torch.cuda.OutOfMemoryError:
            gc.collect()
            torch.cuda.empty_cache()
        else:
            fit[name] = call
    return fit


def ratio(sample: Sample, base: Sample) -> float:
    """Of the medians."""
    return sample.median / base.median


def spread(sample: Sample, base: Sample) -> float:
    """Between the least and the greatest ratio of one round."""
    ratios = [a / b for a, b in zip(sample.seconds, base.seconds)]
    return max(ratios) - min(ratios)


class PeakMemory:
    """``with PeakMemory() as memory: ...``, then ``memory.bytes``: growth at the peak.

    On a GPU torch's own count.  Elsewhere the high-water mark of the process, which Linux can
    reset, after glibc has returned free memory; 0 if there is no such thing.
    """

    bytes = 0

    def __enter__(self):
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
            self._before = torch.cuda.memory_allocated()
        else:
            self._reset = _trim_heap() and _reset_high_water_mark()
            self._before = _status("VmRSS")
        return self

    def __exit__(self, *exception):
        if torch.cuda.is_available():
            self.bytes = torch.cuda.max_memory_allocated() - self._before
        elif self._reset:
            self.bytes = max(_status("VmHWM") - self._before, 0)


def _trim_heap() -> bool:
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        return True
    except (OSError, AttributeError):
        return False


def _reset_high_water_mark() -> bool:
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        return True
    except OSError:
        return False


def _status(field: str) -> int:
    if not os.path.exists("/proc/self/status"):
        return 0
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0
