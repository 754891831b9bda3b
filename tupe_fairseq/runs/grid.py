"""Makes many runs, several at a time, each on one device."""

import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, TypeVar

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from tupe_fairseq.runs.process import end_all

logger = logging.getLogger("tupe-runs")
Run = TypeVar("Run")


class Slot(NamedTuple):
    """What the grid gives to a run."""

    device: str  # CUDA_VISIBLE_DEVICES of its processes
    lock: int | None  # a descriptor that they inherit, see :func:`tupe_fairseq.files.locked`
    parallel: int  # how many run at a time
    on_updates: Callable[[int], None]  # to be called with the number of updates made so far


def run_grid(
    runs: Sequence[Run],
    make: Callable[[Run, Slot], Any],
    devices: Sequence[str] = ("",),
    parallel: int | None = None,
    *,
    lock: int | None = None,
    updates: int = 1,
    is_finished: Callable[[Run], bool] = lambda run: False,
    on_result: Callable[[Run, Any], None] = lambda run, result: None,
) -> dict[Run, Exception]:
    """Make all unfinished runs, even if some fail, and return those that failed.

    An interruption ends all runs.

    Args:
        make: makes a run, in a thread.
        devices: values of CUDA_VISIBLE_DEVICES; "" is the CPU. (Beside a GPU that torch sees,
            fairseq's --cpu fails when it clips gradients.)
        parallel: runs at a time, on all devices together; default: one on each device.
        updates: how many each run makes, for the progress bar.
        on_result: called in this thread with each run and what ``make`` returned.
    """
    waiting = deque(run for run in runs if not is_finished(run))
    logger.info("%d of %d runs left", len(waiting), len(runs))
    count = min(parallel or len(devices), max(1, len(waiting)))
    free = deque(devices[place % len(devices)] for place in range(count))
    active: dict[Future, tuple[Run, str]] = {}
    failed: dict[Run, Exception] = {}
    done, made, begin = updates * (len(runs) - len(waiting)), 0, time.monotonic()
    bar = tqdm(total=updates * len(runs), initial=done, unit="update", disable=None)

    def one(run: Run, device: str) -> Any:
        done = 0

        def on_updates(now: int) -> None:
            nonlocal done
            bar.update(now - done)
            done = now

        return make(run, Slot(device, lock, count, on_updates))

    with bar, logging_redirect_tqdm(), ThreadPoolExecutor(count) as pool:
        try:
            while waiting or active:
                while waiting and free:
                    run, device = waiting.popleft(), free.popleft()
                    active[pool.submit(one, run, device)] = run, device
                for future in wait(active, return_when=FIRST_COMPLETED).done:
                    run, device = active.pop(future)
                    free.append(device)
                    try:
                        result = future.result()
                    except Exception as error:  # the others do not depend on it
                        failed[run] = error
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
    return failed


def exit_if_failed(failed: dict[Run, Exception]) -> None:
    """If some runs failed, list them and exit with code 1."""
    if failed:
        names = ""
        for run, error in failed.items():  # what failed, and the end of its log
            lines = (str(error) or type(error).__name__).splitlines()
            names += f"\n  {run}: {' '.join(dict.fromkeys((lines[0], lines[-1])))}"
        logger.error("%d runs failed; run again to repeat them:%s", len(failed), names)
        sys.exit(1)


def torch_device(device: str) -> str:
    """The name that torch in this process has for a device of :func:`run_grid`."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    number = visible.split(",").index(device) if visible and device else device
    return f"cuda:{number}" if device else "cpu"
