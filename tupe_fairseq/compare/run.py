"""One run of a comparison: its training and its curve."""

import logging
import math
import os
from statistics import median
from typing import Any

from tupe_fairseq.checkpoint.checkpoint import EMBEDDING, LM_HEAD, read
from tupe_fairseq.compare.command import Run
from tupe_fairseq.provenance import made_by
from tupe_fairseq.runs.grid import Slot, torch_device
from tupe_fairseq.runs.process import LAST, START, Diverged, records, remove_checkpoints

logger = logging.getLogger("tupe-compare")


def make_run(run: Run, slot: Slot, *, keep_checkpoint: bool) -> dict[str, Any]:
    """Train, or resume an interrupted training; writes and returns result.json."""
    settings, log_path, last = run.settings, run.path("train.log"), run.path(LAST)
    done = read(last)[2] or 0 if os.path.exists(last) else 0

    def on_valid(record: dict[str, Any]) -> None:
        if not math.isfinite(float(record["valid_loss"])):
            updates = record["valid_num_updates"]
            raise Diverged(f"the validation loss after {updates} updates is not finite")

    slot.on_updates(done)
    diverged = None
    try:
        if done < settings.updates:
            run.train(slot, on_valid)
    except Diverged as error:
        logger.warning("%s diverged: %s", run, error)
        diverged = str(error)
    found = read_log(log_path)
    curve = found["curve"]
    if diverged is None and (not curve or curve[-1]["updates"] != settings.updates):
        raise ValueError(
            f"{log_path} lacks the last validation; delete {run.folder} to train it again"
        )
    result = {
        "arch": run.arch,
        "scheme": run.scheme.label,
        "seed": run.seed,
        "lr": settings.lr,
        "updates": settings.updates,
        "diverged": diverged,
        "final_loss": None if diverged else curve[-1]["loss"],
        **found,
        **made_by(torch_device(slot.device)),
        **{name: getattr(settings, name) for name in ("fp16", "threads")},
        "parameters": parameters_of(last) if os.path.exists(last) else None,
    }
    run.save(result)
    remove_checkpoints(run.folder, keep=LAST if keep_checkpoint and not diverged else "")
    slot.on_updates(settings.updates)
    return result


def read_log(path: str) -> dict[str, Any]:
    """The curve and the speed of a run, from fairseq's JSON records.

    fairseq's words per second include the time of a start or a validation just before the interval.
    The speed is the median over the other intervals.
    """
    points: dict[int, float] = {}
    is_first, parallel = True, 1
    speeds: dict[bool, list[float]] = {True: [], False: []}
    for tag, record in records(path):
        if tag == START:
            parallel, is_first = max(parallel, record["parallel"]), True
        elif tag == "train_inner":
            speeds[is_first].append(float(record["wps"]))
            is_first = False
        elif tag == "valid" and math.isfinite(float(record["valid_loss"])):
            updates, is_first = int(record["valid_num_updates"]), True
            points = {number: points[number] for number in points if number < updates}
            points[updates] = float(record["valid_loss"])
    return {
        "curve": [{"updates": n, "loss": loss} for n, loss in points.items()],
        "words_per_second": median(speeds[False] or speeds[True] or [0.0]) or None,
        "parallel": parallel,
    }


def parameters_of(checkpoint: str) -> int:
    """The number of parameters; a tied LM head, saved twice on a GPU, counts once."""
    _, tensors, _ = read(checkpoint)
    embedding, last = tensors[EMBEDDING], tensors[LM_HEAD + "weight"]
    tied = embedding.numel() if last.equal(embedding) else 0
    return sum(tensor.numel() for name, tensor in tensors.items() if "version" not in name) - tied
