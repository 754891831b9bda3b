"""Reads a trained model out, a step at a time, and keeps the numbers beside its result."""

import logging
import os
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

from tupe_fairseq.compare.comparison import Comparison, ComparisonRun
from tupe_fairseq.compare.readout_commands import Readout, readout_commands
from tupe_fairseq.compare.readouts import PAIRS
from tupe_fairseq.fairseq_runs.command import as_shell
from tupe_fairseq.fairseq_runs.train import train
from tupe_fairseq.files.atomic import write_json
from tupe_fairseq.files.record import read_record

logger = logging.getLogger("tupe-compare")

_SHARE = {"accuracy": float}
_SCORED = {"pairs": {"all": _SHARE, "phenomena": {str: _SHARE}}}
_FINETUNED = {
    "selection": str,
    "best_lr": str,
    "runs": [{"lr": str, "seed": int, "metrics": ({"valid": {str: float}}, None)}],
}
#: of a finished run; the scores are those of the fine-tuning seeds
READOUTS = {
    PAIRS: ({"accuracy": float, "phenomena": {str: float}}, None),
    "tasks": {str: {"metric": str, "scores": [float]}},
}


def make_readouts(
    comparison: Comparison,
    run: ComparisonRun,
    *,
    diverged: bool = False,
    gpu: str | None = None,
    lock: int | None = None,
    on_start: Callable[[subprocess.Popen], None] = lambda process: None,
) -> dict[str, Any]:
    """Read everything out of checkpoint_last.pt that an earlier call has not, and keep it.

    Args:
        comparison (Comparison): what all runs share.
        run (ComparisonRun): a trained one.
        diverged (bool): whether its training did, so that there is nothing to read out.
        gpu (str or None): the value of CUDA_VISIBLE_DEVICES; None on the CPU.
        lock (int or None): a descriptor that each process is to hold.
        on_start (callable): called with each process.
    Returns:
        dict: of the shape ``READOUTS``, the content of readouts.json.
    Raises:
        ValueError: if a command fails.
    """
    folder = comparison.path(run, "readouts")
    os.makedirs(folder, exist_ok=True)
    env = dict(comparison.environment)
    if gpu is not None:
        env["CUDA_VISIBLE_DEVICES"] = gpu
    found: dict[str, Any] = {PAIRS: None, "tasks": {}}
    for one in [] if diverged else readout_commands(comparison, run, folder):
        done = os.path.join(folder, one.name.replace("/", "-") + ".done")
        # the results of a task are there from its first run on
        if not os.path.exists(done):
            logger.info("%s: %s", run.label, one.name)
            log_path = comparison.path(run, "readouts.log")
            with open(log_path, "a", encoding="utf-8") as log:
                log.write(as_shell(one.words) + "\n")
            train(one.words, log_path, lock=lock, env=env, on_start=on_start)
            write_json(done, True)
        if one.name == PAIRS:
            found[PAIRS] = _pairs(one)
        else:
            found["tasks"][one.name] = _scores(one)
    write_json(comparison.path(run, "readouts.json"), found)
    shutil.rmtree(folder)
    return found


def _pairs(one: Readout) -> dict[str, Any]:
    shares = read_record(one.results, _SCORED)["pairs"]
    return {
        "accuracy": shares["all"]["accuracy"],
        "phenomena": {name: share["accuracy"] for name, share in shares["phenomena"].items()},
    }


def _scores(one: Readout) -> dict[str, Any]:
    """The scores at the best rate; a diverged run counts as 0, as in tupe-finetune's tables."""
    results = read_record(one.results, _FINETUNED)
    metric = results["selection"]
    runs: list[dict[str, Any]] = [run for run in results["runs"] if run["lr"] == results["best_lr"]]
    return {
        "metric": metric,
        "scores": [run["metrics"]["valid"][metric] if run["metrics"] else 0.0 for run in runs],
    }
