"""One run of a comparison: train, measure, write result.json, read the model out."""

import logging
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from statistics import median
from typing import Any

from tupe_fairseq.compare.comparison import Comparison, ComparisonRun
from tupe_fairseq.compare.measured_readouts import make_readouts
from tupe_fairseq.compare.measurement import Measurement
from tupe_fairseq.compare.provenance import processor
from tupe_fairseq.fairseq_runs.save_dir import (
    LAST,
    discard_damaged,
    remove_checkpoints,
    training_hours_of,
    updates_of,
)
from tupe_fairseq.fairseq_runs.train import Diverged, train
from tupe_fairseq.files.atomic import atomic_write, write_json

logger = logging.getLogger("tupe-compare")

_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+) ")


def compare_one(
    comparison: Comparison,
    run: ComparisonRun,
    *,
    position_parameters: int,
    side_by_side: int = 1,
    gpu: str | None = None,
    keep_checkpoint: bool = False,
    lock: int | None = None,
    seconds: float | None = None,
    on_updates: Callable[[int], None] = lambda updates: None,
    on_start: Callable[[subprocess.Popen], None] = lambda process: None,
) -> dict[str, Any] | None:
    """Train, or resume an interrupted training, write result.json, and read the model out.

    Args:
        comparison (Comparison): what all runs share.
        run (ComparisonRun): size, scheme and seed.
        position_parameters (int): the parameters of the position encoding.
        side_by_side (int): the number of concurrent runs.
        gpu (str or None): the value of CUDA_VISIBLE_DEVICES; None on the CPU.
        keep_checkpoint (bool): whether checkpoint_last.pt stays when the run is finished.
        lock (int or None): a descriptor that the training process is to hold.
        seconds (float or None): after so many of training it stops, and can be resumed there.
        on_updates (callable): called with the updates made so far.
        on_start (callable): called with the training process.
    Returns:
        dict: the content of result.json; None if the run stopped before its end.
    Raises:
        ValueError: if fairseq-train, or a command that reads the model out, fails.
    """
    folder = comparison.path(run)
    os.makedirs(folder, exist_ok=True)
    with atomic_write(comparison.path(run, "command.sh")) as file:
        file.write(comparison.script(run))
    done, measured = _resumed(comparison, run, side_by_side)
    on_updates(done)
    if done < comparison.updates:  # of a checkpoint that is gone
        shutil.rmtree(comparison.path(run, "readouts"), ignore_errors=True)

    def start(process: subprocess.Popen) -> None:
        measured.pid = process.pid
        on_start(process)

    def follow(line: str) -> None:
        updates = measured.follow(line)
        if updates is not None:
            on_updates(updates)

    diverged = None
    log_path = comparison.path(run, "train.log")
    try:
        # from a checkpoint of the last update fairseq-train would make one more
        if done < comparison.updates:
            env = dict(comparison.environment)
            if gpu is not None:
                env["CUDA_VISIBLE_DEVICES"] = gpu
            command = [*comparison.command(run), *_stopping(comparison.path(run, LAST), seconds)]
            train(command, log_path, follow, lock=lock, env=env, on_start=start)
    except Diverged as error:
        logger.warning("%s diverged: %s", run.label, error)
        diverged = str(error)
    if seconds is not None and diverged is None and not measured.has(comparison.updates):
        return None
    result = _result(comparison, run, measured, diverged)
    result["parameters"] = _parameters(log_path)
    result["position_parameters"] = position_parameters
    write_json(comparison.path(run, "result.json"), result)
    if comparison.readouts.names():
        make_readouts(
            comparison, run, diverged=diverged is not None, gpu=gpu, lock=lock, on_start=on_start
        )
    remove_checkpoints(folder, keep=LAST if keep_checkpoint else "")
    return result


def _stopping(last: str, seconds: float | None) -> list[str]:
    """Flags with which fairseq-train validates, saves and ends after so many seconds."""
    if seconds is None:
        return []
    before = training_hours_of(last) if os.path.exists(last) else 0.0
    return ["--stop-time-hours", str(before + seconds / 3600)]


def _resumed(
    comparison: Comparison, run: ComparisonRun, side_by_side: int
) -> tuple[int, Measurement]:
    """The updates that are made already, and the curve up to there; both begin afresh if the
    checkpoint is damaged or the curve lacks a validation before it."""
    folder, curve = comparison.path(run), comparison.path(run, "curve.jsonl")
    discard_damaged(folder)
    last = comparison.path(run, LAST)
    done = updates_of(last) if os.path.exists(last) else 0
    measured = Measurement(curve, done, side_by_side)
    planned = comparison.validations(done)
    # a run that was stopped was validated there, too
    if measured.has(done) and all(map(measured.has, planned)):
        return done, measured
    logger.warning(
        "%s: its checkpoint has made %d updates, but curve.jsonl does not have each validation "
        "up to there (fairseq-train went on alone); this run begins afresh",
        run.label,
        done,
    )
    remove_checkpoints(folder)
    return 0, Measurement(curve, 0, side_by_side)


def _result(
    comparison: Comparison, run: ComparisonRun, measured: Measurement, diverged: str | None
) -> dict[str, Any]:
    planned = comparison.validations(comparison.updates)
    points = [point for point in measured.points if point["updates"] in planned]
    if diverged is None and (not points or points[-1]["updates"] != comparison.updates):
        raise ValueError(
            f"{run.label} ended without a validation after {comparison.updates} updates; see "
            + comparison.path(run, "train.log")
        )
    speeds = [p["words_per_second"] for p in points if p["words_per_second"] is not None]
    best = min(points, key=lambda point: point["loss"], default=None)
    final = points[-1] if points else None
    return {
        "arch": run.arch,
        "scheme": run.scheme.label,
        "seed": run.seed,
        "lr": comparison.lr,
        "updates": comparison.updates,
        "validate_every": comparison.validate_every,
        "diverged": diverged,
        "final_loss": final["loss"] if diverged is None else None,
        "best_loss": None if best is None else best["loss"],
        "best_updates": None if best is None else best["updates"],
        "seconds": None if final is None else final["seconds"],
        "words_per_second": median(speeds) if speeds else None,
        "peak_memory_mib": None if final is None else final["peak_memory_mib"],
        "side_by_side": max((p["side_by_side"] for p in points), default=measured.side_by_side),
        "machine": processor() + ("" if measured.device is None else f"; {measured.device}"),
        "curve": [{key: point[key] for key in ("updates", "loss", "seconds")} for point in points],
    }


def _parameters(log_path: str) -> int | None:
    found = None
    if os.path.exists(log_path):
        with open(log_path, encoding="utf-8", errors="replace") as file:
            for line in file:
                found = _PARAMETERS.search(line) or found
    return None if found is None else int(found.group(1).replace(",", ""))
