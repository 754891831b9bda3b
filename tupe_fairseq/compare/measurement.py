"""Follows a run's log: loss curve, training time, speed, memory."""

import json
import math
import re
import time
from collections.abc import Callable
from typing import Any

from tupe_fairseq.fairseq_runs.train import Diverged, record_of
from tupe_fairseq.files.atomic import atomic_write
from tupe_fairseq.files.record import check_record

# fairseq trains from a line of the first kind to one of the second, or to a validation's result
_STARTS = ("| Start iterating over samples", "| Saved checkpoint ")
_STOPS = ("| begin validation on ", "| Preparing to save checkpoint ", "| end of epoch ")
_GPU = re.compile(r"total memory = ([\d.]+) GB ; name = (.*\S)")
_MIB_PER_GIB = 1024


class Measurement:
    """The curve of a run, one point per validation, kept in a file of JSON lines.

    A point holds ``updates``, ``loss`` (bits per masked token, as fairseq logs it), ``seconds`` of
    training up to it, ``words_per_second`` since the point before (None where the log has no line
    for the last update), ``peak_memory_mib`` so far, and ``side_by_side``, the number of
    concurrent runs.

    Seconds are those of training alone: reading batches, forward, backward, update and logging,
    on this process's clock, by the lines of the log between which fairseq trains.  Start,
    validation and saving do not count, and what an interrupted run lost does not either.
    fairseq's own ``train_wall`` is logged in whole seconds, too coarse for short intervals.

    Args:
        path (str): the file.
        updates (int): the updates that the run already has; later points are dropped, since
            they will be measured again.
        side_by_side (int): the number of concurrent runs from now on.
        clock (callable): gives the time in seconds.
    """

    def __init__(
        self,
        path: str,
        updates: int,
        side_by_side: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.path = path
        self.side_by_side = side_by_side
        self.device: str | None = None
        self.pid: int | None = None
        self.points = [point for point in read_points(path) if point["updates"] <= updates]
        last = self.points[-1] if self.points else {}
        self._seconds = last.get("seconds", 0.0)
        self._peak = last.get("peak_memory_mib")
        self._updates = self._logged = last.get("updates", 0)
        self._words = 0.0
        self._clock = clock
        self._since: float | None = None
        self._gpu_mib: float | None = None
        self._write()

    def has(self, updates: int) -> bool:
        """Whether there is a point after so many updates; of none there is nothing to measure."""
        return updates == 0 or any(point["updates"] == updates for point in self.points)

    def follow(self, line: str) -> int | None:
        """Record a line of the log.

        Returns:
            int: the updates made so far, if the line contains them.
        Raises:
            Diverged: if a validation's loss is not a finite number.
        """
        if any(text in line for text in _STARTS):
            self._since = self._clock()
        elif any(text in line for text in _STOPS):
            self._pause()
        gpu = _GPU.search(line)
        if gpu is not None:
            self._gpu_mib, self.device = float(gpu.group(1)) * _MIB_PER_GIB, gpu.group(2)
        record = record_of(line, "train_inner")
        if record is not None:
            return self._log(record)
        record = record_of(line, "valid")
        if record is not None:
            self._validated(int(record["valid_num_updates"]), float(record["valid_loss"]))
            self._since = self._clock()
        return None

    def _pause(self) -> None:
        if self._since is not None:
            self._seconds += self._clock() - self._since
            self._since = None

    def _log(self, record: dict[str, Any]) -> int:
        updates = int(record["num_updates"])
        self._words += float(record["wpb"]) * (updates - self._logged)
        self._logged = updates
        if self._gpu_mib is None:
            self._remember_peak(peak_resident_mib(self.pid))
        elif "gb_free" in record:
            self._remember_peak(self._gpu_mib - float(record["gb_free"]) * _MIB_PER_GIB)
        return updates

    def _remember_peak(self, mib: float | None) -> None:
        if mib is not None:
            self._peak = mib if self._peak is None else max(self._peak, mib)

    def _validated(self, updates: int, loss: float) -> None:
        if not math.isfinite(loss):
            raise Diverged(f"the validation loss after {updates} updates is {loss}")
        if self._gpu_mib is None:
            self._remember_peak(peak_resident_mib(self.pid))
        before = self.points[-1]["seconds"] if self.points else 0.0
        whole = self._logged == updates and updates > self._updates and self._seconds > before
        point = {
            "updates": updates,
            "loss": loss,
            "seconds": self._seconds,
            "words_per_second": self._words / (self._seconds - before) if whole else None,
            "peak_memory_mib": self._peak,
            "side_by_side": self.side_by_side,
        }
        # in fp16, after a skipped update fairseq repeats the validation
        self.points = [*(one for one in self.points if one["updates"] != updates), point]
        self._words, self._updates, self._logged = 0.0, updates, updates
        self._write()

    def _write(self) -> None:
        with atomic_write(self.path) as file:
            file.writelines(json.dumps(point) + "\n" for point in self.points)


_POINT = {
    "updates": int,
    "loss": float,
    "seconds": float,
    "words_per_second": (float, None),
    "peak_memory_mib": (float, None),
    "side_by_side": int,
}


def read_points(path: str) -> list[dict[str, Any]]:
    """The points in a file; none if it does not exist.

    Raises:
        ValueError: if it is damaged.
    """
    points = []
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                point = json.loads(line)
                check_record(point, _POINT, path)
                points.append({**dict.fromkeys(_POINT), **point})
    except FileNotFoundError:
        return []
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{error}; delete {path}, and the run begins afresh") from error
    return points


def peak_resident_mib(pid: int | None) -> float | None:
    """The peak resident memory of a running process in MiB; None if /proc does not have it."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    return None
