"""One run of a comparison: train, measure, evaluate downstream, write result.json."""

import json
import logging
import math
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from statistics import fmean, median
from typing import Any

from tupe_fairseq.compare.command import PAIRS, Run
from tupe_fairseq.fairseq_runs.command import as_shell, console_script
from tupe_fairseq.fairseq_runs.grid import cores
from tupe_fairseq.fairseq_runs.train import (
    LAST,
    Diverged,
    record_of,
    remove_checkpoints,
    train,
    updates_of,
)
from tupe_fairseq.files import atomic_write, read_json, write_json

logger = logging.getLogger("tupe-compare")

# fairseq trains from a line of the first kind to one of the second, or to a validation's result
_STARTS = ("| Start iterating over samples", "| Saved checkpoint ")
_STOPS = ("| begin validation on ", "| Preparing to save checkpoint ", "| end of epoch ")
_GPU = re.compile(r"total memory = ([\d.]+) GB ; name = (.*\S)")
_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+) ")


def make_run(
    run: Run,
    position_parameters: int,
    *,
    parallel: int = 1,
    env: dict[str, str] | None = None,
    lock: int | None = None,
    keep_checkpoint: bool = False,
    on_updates: Callable[[int], None] = lambda updates: None,
) -> dict[str, Any]:
    """Train, or resume an interrupted training, and measure; the content of result.json.

    What is measured after the training may be added to a finished run.

    Args:
        parallel: how many run at a time, on which speed and memory depend; for result.json.
        env, lock: as for :func:`train`.
        on_updates: called with the updates made so far.
    """
    os.makedirs(run.path(), exist_ok=True)
    env = {**(env or {}), "OMP_NUM_THREADS": str(run.settings.threads)}
    result = run.result()
    if result is None:
        result = _train(run, position_parameters, parallel, env, lock, on_updates)
    on_updates(run.settings.updates)
    for name in run.missing() or ():
        # older scores of the same name go
        downstream = {n: x for n, x in result["downstream"].items() if n.partition("/")[0] != name}
        downstream.update(_measure(run, name, env, lock))
        measured = {**result.get("measured", {}), name: run.settings.measurements()[name]}
        result = {**result, "downstream": downstream, "measured": measured}
        write_json(run.path("result.json"), result)
    shutil.rmtree(run.path("downstream"), ignore_errors=True)
    if not keep_checkpoint:
        remove_checkpoints(run.path())
    return result


def _train(
    run: Run, position_parameters: int, parallel: int, env: dict[str, str], lock, on_updates
) -> dict[str, Any]:
    settings, log_path = run.settings, run.path("train.log")
    with atomic_write(run.path("command.sh")) as file:
        file.write(run.script())
    done, measured = _resumed(run, parallel)
    on_updates(done)

    def follow(line: str) -> None:
        updates = measured.follow(line)
        if updates is not None:
            on_updates(updates)

    def start(process: subprocess.Popen) -> None:
        measured.pid = process.pid

    diverged = None
    try:
        if done < settings.updates:
            train(run.command(), log_path, follow, lock=lock, env=env, on_start=start)
    except Diverged as error:
        logger.warning("%s diverged: %s", run.label, error)
        diverged = str(error)
    curve = [point for point in measured.points if point["updates"] in settings.validations]
    if diverged is None and (not curve or curve[-1]["updates"] != settings.updates):
        raise ValueError(f"{run.label} ended without its last validation; see {log_path}")
    best = min(curve, key=lambda point: point["loss"], default={})
    last = curve[-1] if curve else {}
    speeds = [point["words_per_second"] for point in curve if point["words_per_second"]]
    result = {
        "arch": run.arch,
        "scheme": run.scheme.label,
        "seed": run.seed,
        "lr": settings.lr,
        "updates": settings.updates,
        "diverged": diverged,
        "final_loss": None if diverged else last["loss"],
        "best_loss": best.get("loss"),
        "best_updates": best.get("updates"),
        "seconds": last.get("seconds"),
        "words_per_second": median(speeds) if speeds else None,
        "peak_memory_mib": last.get("peak_memory_mib"),
        "parallel": max([parallel, *(point["parallel"] for point in curve)]),
        "machine": processor() + (f"; {measured.gpu}" if measured.gpu else ""),
        "parameters": _parameters(log_path),
        "position_parameters": position_parameters,
        "curve": [
            {name: point[name] for name in ("updates", "loss", "seconds")} for point in curve
        ],
        "downstream": {},
        "measured": {},
    }
    write_json(run.path("result.json"), result)
    remove_checkpoints(run.path(), keep="" if diverged else LAST)
    return result


def _resumed(run: Run, parallel: int) -> tuple[int, "Measurement"]:
    """The updates that are made already, and the curve up to there.

    Both start again if the curve lacks a validation.
    """
    last = run.path(LAST)
    done = updates_of(last) if os.path.exists(last) else 0
    measured = Measurement(run.path("curve.jsonl"), done, parallel)
    expected = {updates for updates in run.settings.validations if updates <= done}
    if not done or expected | {done} <= {point["updates"] for point in measured.points}:
        return done, measured
    logger.warning("%s: curve.jsonl lacks a validation; the run restarts", run.label)
    remove_checkpoints(run.path())
    return 0, Measurement(measured.path, 0, parallel)


class Measurement:
    """Follows a run's log: one point for each validation, kept in a file of JSON lines.

    Seconds are those of training alone, by the lines of the log between which fairseq trains:
    fairseq's own ``train_wall`` is logged in whole seconds.
    """

    def __init__(
        self,
        path: str,
        updates: int,
        parallel: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.path, self.parallel, self._clock = path, parallel, clock
        self.gpu: str | None = None
        self.pid: int | None = None
        self.points = [point for point in _read(path) if point["updates"] <= updates]
        last = self.points[-1] if self.points else {}
        self._seconds, self._peak = last.get("seconds", 0.0), last.get("peak_memory_mib")
        self._validated = self._logged = last.get("updates", 0)
        self._words = 0.0
        self._since: float | None = None
        self._gpu_mib = 0.0

    def follow(self, line: str) -> int | None:
        """Take in a line of the log; the updates made so far, if it contains them."""
        if any(text in line for text in _STARTS):
            self._since = self._clock()
        elif any(text in line for text in _STOPS) and self._since is not None:
            self._seconds += self._clock() - self._since
            self._since = None
        gpu = _GPU.search(line)
        if gpu:
            self._gpu_mib, self.gpu = 1024 * float(gpu.group(1)), gpu.group(2)
        record = record_of(line, "train_inner")
        if record is not None:
            updates = int(record["num_updates"])
            self._words += float(record["wpb"]) * (updates - self._logged)
            self._logged = updates
            if "gb_free" in record:
                self._remember(self._gpu_mib - 1024 * float(record["gb_free"]))
            return updates
        record = record_of(line, "valid")
        if record is not None:
            self._add(int(record["valid_num_updates"]), float(record["valid_loss"]))
            self._since = self._clock()
        return None

    def _add(self, updates: int, loss: float) -> None:
        if not math.isfinite(loss):
            raise Diverged(f"the validation loss after {updates} updates is {loss}")
        if not self._gpu_mib:
            self._remember(peak_resident_mib(self.pid))
        seconds = self._seconds - (self.points[-1]["seconds"] if self.points else 0.0)
        is_whole = self._logged == updates > self._validated and seconds > 0
        point = {
            "updates": updates,
            "loss": loss,
            "seconds": self._seconds,
            "words_per_second": self._words / seconds if is_whole else None,
            "peak_memory_mib": self._peak,
            "parallel": self.parallel,
        }
        # in fp16, after a skipped update fairseq repeats the validation
        self.points = [*(one for one in self.points if one["updates"] != updates), point]
        self._words, self._validated, self._logged = 0.0, updates, updates
        with atomic_write(self.path) as file:
            file.writelines(json.dumps(one) + "\n" for one in self.points)

    def _remember(self, mib: float | None) -> None:
        self._peak = max((x for x in (self._peak, mib) if x is not None), default=None)


def _read(path: str) -> list[dict[str, Any]]:
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _measure(run: Run, name: str, env: dict[str, str], lock: int | None) -> dict[str, float]:
    """Of checkpoint_last.pt the percentage of minimal pairs, or the score of a fine-tuned task
    (times 100, the mean over the fine-tuning seeds at the best rate)."""
    settings, folder = run.settings, run.path("downstream")
    logger.info("%s: %s", run, name)
    if name == PAIRS:
        words = ["tupe-score", run.path(LAST), "--pairs", settings.pairs]
        words += ["--data", settings.data.split(":")[0], "--results", os.path.join(folder, name)]
        if settings.pairs_per_file:
            words += ["--pairs-per-file", str(settings.pairs_per_file)]
    else:
        words = ["tupe-finetune", *settings.finetune_flags, "--data", dict(settings.tasks)[name]]
        words += ["--checkpoint", run.path(LAST), "--output-dir", folder]
        words += ["--fp16"] if settings.fp16 else []
    command = [console_script(words[0]), *words[1:], *(["--cpu"] if settings.cpu else [])]
    # of an earlier call with other flags, or of one that failed
    shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    with open(run.path("downstream.log"), "a", encoding="utf-8") as log:
        log.write(as_shell(command) + "\n")
    train(command, run.path("downstream.log"), lock=lock, env=env)
    results = read_json(os.path.join(folder, name, "results.json"))
    if name == PAIRS:
        shares = {name: results["pairs"]["all"]}
        shares |= {f"{name}/{one}": x for one, x in results["pairs"]["phenomena"].items()}
        return {one: 100 * share["accuracy"] for one, share in shares.items()}
    best = [one["metrics"] for one in results["runs"] if one["lr"] == results["best_lr"]]
    # a diverged run counts as 0, as in the tables of tupe-finetune
    scores = [one["valid"][results["selection"]] if one else 0.0 for one in best]
    return {name: 100 * fmean(scores)}


def _parameters(log_path: str) -> int | None:
    if not os.path.exists(log_path):
        return None
    with open(log_path, encoding="utf-8", errors="replace") as file:
        counts = _PARAMETERS.findall(file.read())
    return int(counts[-1].replace(",", "")) if counts else None


def peak_resident_mib(pid: int | None) -> float | None:
    """The peak resident memory of a running process in MiB; None where there is no /proc."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            match = re.search(r"VmHWM:\s*(\d+)", file.read())
    except OSError:
        return None
    return int(match[1]) / 1024 if match else None


def processor() -> str:
    """The processor's name and the number of its cores that may be used."""
    match = None
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            match = re.search(r"^model name\s*: (.*)", file.read(), re.MULTILINE)
    return f"{match[1] if match else 'CPU'}, {cores()} cores"
