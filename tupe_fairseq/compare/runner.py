"""A whole comparison: runs one after the other or concurrently, then the results."""

import logging
import os
import queue
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Dict, List, Optional, Sequence, Tuple

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from tupe_fairseq.compare.aggregate import summarize_schemes
from tupe_fairseq.compare.comparison import Comparison, ComparisonRun
from tupe_fairseq.compare.finished_runs import finished, finished_schemes
from tupe_fairseq.compare.measured_run import compare_one
from tupe_fairseq.compare.parse_schemes import Scheme
from tupe_fairseq.compare.report import report
from tupe_fairseq.files.lock import locked
from tupe_fairseq.files.results import write_results
from tupe_fairseq.files.steps import keep_settings
from tupe_fairseq.programs.train import end
from tupe_fairseq.shell_text import show

logger = logging.getLogger("tupe-compare")


def run_comparison(
    comparison: Comparison,
    runs: Sequence[ComparisonRun],
    parameters: Dict[Tuple[str, Scheme], int],
    baseline: Optional[str],
    devices: Sequence[Optional[str]],
    keep_checkpoints: bool = False,
) -> str:
    """Make the unfinished runs, and write the results of all finished ones.

    Args:
        comparison (Comparison): what all runs share.
        runs (sequence of ComparisonRun): the runs; finished runs of other calls count in the
            results, too.
        parameters (dict): size and scheme to the parameters of the position encoding.
        baseline (str or None): label of the scheme that the others are compared with; by default
            ``learned``, or the first one if that is not among them.
        devices (sequence): a value of CUDA_VISIBLE_DEVICES, None for the CPU, for each
            of the concurrent runs.
        keep_checkpoints (bool): whether finished runs keep checkpoint_last.pt.
    Returns:
        str: the text of results.md.
    Raises:
        ValueError: if the folder has other settings or is in use, if a run fails, or if there is
            no run of the baseline.
    """
    order = [(run.arch, run.scheme.label) for run in runs]
    baseline = _baseline(comparison, baseline, [label for _, label in order])
    os.makedirs(comparison.folder, exist_ok=True)
    with locked(comparison.folder) as lock:
        settings = comparison.settings()
        keep_settings(comparison.folder, settings)
        finished(comparison)  # a damaged one is refused before anything runs
        todo = [run for run in runs if not os.path.exists(comparison.path(run, "result.json"))]
        logger.info("%d of %d runs left", len(todo), len(runs))
        with logging_redirect_tqdm():
            _make_runs(
                comparison, todo, parameters, devices[: max(1, len(todo))], keep_checkpoints, lock,
                lambda: _write_results(comparison, settings, baseline, order),
            )  # fmt: skip
        results = _write_results(comparison, settings, baseline, order)
        # only now: matplotlib takes a second, and logs while it is imported
        from tupe_fairseq.compare.loss_curves import write_figures

        write_figures(results, comparison.folder)
    return report(results)


def _baseline(comparison: Comparison, given: Optional[str], order: Sequence[str]) -> str:
    known = list(dict.fromkeys([*order, *finished_schemes(comparison)]))
    if given is None:
        return "learned" if "learned" in known else known[0]
    if given not in known:
        raise ValueError(
            f"--baseline {given!r} is neither in --schemes nor finished in {comparison.folder}; "
            f"those are {', '.join(map(repr, known))}"
        )
    return given


def _make_runs(comparison, todo, parameters, devices, keep_checkpoints, lock, on_finished) -> None:
    """Make runs, one per device at a time; an interruption of this call ends them all."""
    free: queue.Queue[Optional[str]] = queue.Queue()
    for device in devices:
        free.put(device)
    processes: List[subprocess.Popen] = []
    stopping = threading.Event()
    bar = tqdm(total=len(todo) * comparison.updates, unit="update", disable=None)
    made: Dict[ComparisonRun, int] = {}

    def started(process: subprocess.Popen) -> None:
        processes.append(process)
        if stopping.is_set():
            raise ValueError("stopped")

    def make(run: ComparisonRun) -> Dict[str, Any]:
        def show_updates(updates: int) -> None:
            bar.update(updates - made.get(run, 0))
            made[run] = updates

        gpu = free.get()
        try:
            if stopping.is_set():
                raise ValueError("stopped")
            show(comparison.script(run))
            return compare_one(
                comparison,
                run,
                position_parameters=parameters[run.arch, run.scheme],
                side_by_side=len(devices),
                gpu=gpu,
                keep_checkpoint=keep_checkpoints,
                lock=lock,
                on_updates=show_updates,
                on_start=started,
            )
        finally:
            free.put(gpu)

    with bar, ThreadPoolExecutor(len(devices)) as pool:
        futures = {pool.submit(make, run): run for run in todo}
        try:
            for future in as_completed(futures):
                result = future.result()
                if result["diverged"] is None:
                    logger.info("%s: %.3f bits", futures[future].label, result["final_loss"])
                on_finished()
        except BaseException:
            stopping.set()
            for future in futures:
                future.cancel()
            end(*processes)
            raise


def _write_results(
    comparison: Comparison,
    settings: Dict[str, Any],
    baseline: str,
    order: Sequence[Tuple[str, str]],
) -> Dict[str, Any]:
    """Write results.json and results.md, and return the content of the first."""
    runs = finished(comparison)
    known = [*order, *((run["arch"], run["scheme"]) for run in runs)]
    archs, schemes = (list(dict.fromkeys(names)) for names in zip(*known))
    runs.sort(
        key=lambda run: (
            archs.index(run["arch"]),
            run["scheme"] != baseline,
            schemes.index(run["scheme"]),
            run["seed"],
        )
    )
    results = {
        "settings": settings,
        "machines": list(dict.fromkeys(run["machine"] for run in runs)),
        "baseline": baseline,
        "summary": summarize_schemes(runs, baseline, comparison.updates),
        "runs": runs,
    }
    write_results(comparison.folder, results, report(results))
    return results
