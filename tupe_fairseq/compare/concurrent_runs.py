"""Makes runs one after the other, or several at a time."""

import logging
import queue
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from tupe_fairseq.compare.comparison import Comparison, ComparisonRun
from tupe_fairseq.compare.measured_run import compare_one
from tupe_fairseq.compare.parse_schemes import Scheme
from tupe_fairseq.compare.time_limit import TimeLimit
from tupe_fairseq.fairseq_runs.command import show
from tupe_fairseq.fairseq_runs.train import end_all

logger = logging.getLogger("tupe-compare")

#: a run, and the settings that it is made with
PlannedRun = tuple[Comparison, ComparisonRun]


def make_runs(
    planned: Sequence[PlannedRun],
    parameters: dict[tuple[str, Scheme], int],
    devices: Sequence[str | None],
    lock: int,
    limit: TimeLimit,
    keep_checkpoints: bool = False,
    on_finished: Callable[[], None] = lambda: None,
) -> int:
    """Make the runs, one per device at a time; an interruption of this call ends them all.

    Args:
        planned (sequence): the runs, with their settings; none of them finished.
        parameters (dict): size and scheme to the parameters of the position encoding.
        devices (sequence): a value of CUDA_VISIBLE_DEVICES, None for the CPU, for each of the
            concurrent runs.
        lock (int): a descriptor that the training processes are to hold.
        limit (TimeLimit): when they have to stop.
        keep_checkpoints (bool): whether finished runs keep checkpoint_last.pt.
        on_finished (callable): called whenever a run has finished.
    Returns:
        int: how many are left, because the time is over.
    Raises:
        ValueError: if a run fails.
    """
    devices = devices[: max(1, len(planned))]
    count = len(devices)
    free: queue.Queue[str | None] = queue.Queue()
    for device in devices:
        free.put(device)
    processes: list[subprocess.Popen] = []
    stopping, out_of_time = threading.Event(), threading.Event()
    total = sum(comparison.updates for comparison, _ in planned)
    bar = tqdm(total=total, unit="update", disable=None)

    def started(process: subprocess.Popen) -> None:
        processes.append(process)
        if stopping.is_set() or out_of_time.is_set():
            raise ValueError("stopped")

    def end_of_time() -> None:
        out_of_time.set()
        end_all()

    def make(comparison: Comparison, run: ComparisonRun) -> dict[str, Any] | None:
        made = 0

        def show_updates(updates: int) -> None:
            nonlocal made
            bar.update(updates - made)
            made = updates

        gpu = free.get()
        try:
            if stopping.is_set():
                raise ValueError("stopped")
            seconds = limit.to_train()
            if seconds is not None and seconds <= 0:
                return None
            show(comparison.script(run))
            return compare_one(
                comparison,
                run,
                position_parameters=parameters[run.arch, run.scheme],
                side_by_side=count,
                gpu=gpu,
                keep_checkpoint=keep_checkpoints,
                lock=lock,
                seconds=seconds,
                on_updates=show_updates,
                on_start=started,
            )
        except ValueError:
            if out_of_time.is_set():  # it was ended here, and is gone on with
                return None
            raise
        finally:
            free.put(gpu)

    left = 0
    with bar, logging_redirect_tqdm(), limit.at_end(end_of_time), ThreadPoolExecutor(count) as pool:
        futures = {pool.submit(make, *one): one for one in planned}
        try:
            for future in as_completed(futures):
                result, (_, run) = future.result(), futures[future]
                if result is None:
                    left += 1
                    continue
                if result["diverged"] is None:
                    logger.info("%s: %.3f bits", run.label, result["final_loss"])
                on_finished()
        except BaseException:
            stopping.set()
            for future in futures:
                future.cancel()
            end_all()
            raise
    return left
