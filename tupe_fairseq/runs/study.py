"""A study: trainings in one folder, several at a time, and their results."""

import glob
import logging
import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import cached_property
from statistics import median
from typing import Any

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from tupe_fairseq.files import output_folder, read_json, write_json
from tupe_fairseq.runs.process import end_all
from tupe_fairseq.runs.run import Run, Slot

logger = logging.getLogger("tupe-runs")


class Study:
    """Runs in one folder. Finished ones are not repeated; if one fails, the others go on.

    A subclass for each command says which runs there are, and writes their tables.
    """

    runs: Sequence[Run]

    def __init__(self, folder: str, runs: Sequence[Run]):
        self.folder, self.runs, self.options = folder, runs, runs[0].options
        self.failed: dict[Run, Exception] = {}
        self._lock: int | None = None

    @cached_property
    def record(self) -> dict[str, Any]:
        """What settings.json has: all that results depend on."""
        raise NotImplementedError

    def train_and_report(self) -> str:
        """Train by :meth:`train_all`, and write the results; returns their page."""
        raise NotImplementedError

    def first_runs(self) -> Sequence[Run]:
        """The runs that depend on no others."""
        return self.runs

    def scripts(self) -> str:
        """The commands of the runs that depend on no others; refuses a folder as `complete`."""
        if os.path.isdir(self.folder):
            with self._open():
                pass
        return "\n".join(run.script() for run in self.first_runs())

    def complete(self) -> str:
        """Make the unfinished runs; returns the page of all finished ones."""
        with self._open() as output:
            write_json(os.path.join(self.folder, "settings.json"), self.record)
            logger.info("devices: %s", ", ".join(self.options.devices))
            logger.info("command.sh and train.log of each run: %s/", self.folder)
            self._lock = output.lock
            return self.train_and_report()

    def train_all(
        self, runs: Sequence[Run], on_result: Callable[[Any, dict[str, Any]], None]
    ) -> None:
        """Make the unfinished ones of some runs of equal length, even if some fail.

        ``on_result`` gets each run and its result, in this thread. An interruption ends all runs.
        """
        devices = self.options.devices
        waiting = deque(run for run in runs if run.result() is None)
        logger.info("%d of %d runs left", len(waiting), len(runs))
        count = min(self.options.parallel or len(devices), max(1, len(waiting)))
        free = deque(devices[place % len(devices)] for place in range(count))
        active: dict[Future, tuple[Run, str]] = {}
        updates = runs[0].updates if runs else 1
        done, made, begin = updates * (len(runs) - len(waiting)), 0, time.monotonic()
        bar = tqdm(total=updates * len(runs), initial=done, unit="update", disable=None)

        def start(run: Run, device: str) -> dict[str, Any]:
            done = 0

            def on_updates(now: int) -> None:
                nonlocal done
                bar.update(now - done)
                done = now

            return run.train_and_score(Slot(device, self._lock, count, on_updates))

        with bar, logging_redirect_tqdm(), ThreadPoolExecutor(count) as pool:
            try:
                while waiting or active:
                    while waiting and free:
                        run, device = waiting.popleft(), free.popleft()
                        active[pool.submit(start, run, device)] = run, device
                    for future in wait(active, return_when=FIRST_COMPLETED).done:
                        run, device = active.pop(future)
                        free.append(device)
                        try:
                            result = future.result()
                        except Exception as error:  # the others do not depend on it
                            self.failed[run] = error
                            logger.error("%s failed: %s", run, error or type(error).__name__)
                            continue
                        on_result(run, result)
                        made, left = made + 1, len(waiting) + len(active)
                        if left:
                            minutes = (time.monotonic() - begin) / made * left / 60
                            logger.info("%d runs left, about %.0f min", left, max(1, minutes))
            except BaseException:
                while wait(active, timeout=0.1).not_done:
                    end_all()
                raise

    def exit_if_failed(self) -> None:
        """If some runs failed, list them and exit with code 1."""
        if self.failed:
            names = ""
            for run, error in self.failed.items():  # what failed, and the end of its log
                lines = (str(error) or type(error).__name__).splitlines()
                names += f"\n  {run}: {' '.join(dict.fromkeys((lines[0], lines[-1])))}"
            text = "%d runs failed; run again to repeat them:%s"
            logger.error(text, len(self.failed), names)
            sys.exit(1)

    def _open(self):
        return output_folder(self.folder, "settings.json", self.record)


def finished(folder: str, *names: str) -> dict[str, dict[str, Any]]:
    """The result.json of all finished runs below a folder, by the run's folder.

    ``names`` are glob patterns for the folders in between.
    """
    pattern = os.path.join(glob.escape(folder), *names, "result.json")
    return {os.path.dirname(path): read_json(path) for path in sorted(glob.glob(pattern))}


def best_rate(scores: Mapping[Any, Mapping[Hashable, float | None]]) -> Any:
    """The learning rate with the highest median over the seeds, the first if tied.

    ``scores`` has the score of each seed at each rate; None, of a run that diverged, is below all
    others. Rates are compared at the seeds that all have; without such seeds it is one of those
    with the most.
    """
    common = set.intersection(*map(set, scores.values()))
    most = max(map(len, scores.values()))

    def median_of(rate: Any) -> float:
        own = scores[rate]
        return median(-math.inf if own[x] is None else own[x] for x in common or own)

    return max((rate for rate in scores if common or len(scores[rate]) == most), key=median_of)
