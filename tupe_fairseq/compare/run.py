"""One run of a comparison: its training, its curve, and the measurements of its model."""

import hashlib
import json
import logging
import math
import os
import re
import shutil
from statistics import fmean, median
from typing import Any

import torch

from tupe_fairseq.checkpoint.checkpoint import EMBEDDING, LM_HEAD, read
from tupe_fairseq.compare.command import PAIRS, Run
from tupe_fairseq.files import read_json
from tupe_fairseq.runs.grid import Slot, cores, torch_device
from tupe_fairseq.runs.process import (
    LAST,
    START,
    Diverged,
    as_shell,
    console_script,
    records,
    remove_checkpoints,
    train,
)

logger = logging.getLogger("tupe-compare")


def make_run(run: Run, slot: Slot, *, keep_checkpoint: bool) -> dict[str, Any]:
    """Train, or resume an interrupted training, and measure the model; returns result.json.

    Measurements may be added to a finished run.
    """
    result = run.result()
    if result is None:
        result = _train(run, slot)
        run.save(result)
        remove_checkpoints(run.folder, keep="" if result["diverged"] else LAST)
    slot.on_updates(run.settings.updates)
    for name in run.missing() or ():
        # replace older scores of this measurement
        downstream = {n: x for n, x in result["downstream"].items() if n.partition("/")[0] != name}
        downstream.update(_measure(run, name, slot))
        measured = {**result.get("measured", {}), name: run.settings.measurements()[name]}
        result = {**result, "downstream": downstream, "measured": measured}
        run.save(result)
    shutil.rmtree(run.path("downstream"), ignore_errors=True)
    if not keep_checkpoint:
        remove_checkpoints(run.folder)
    return result


def _train(run: Run, slot: Slot) -> dict[str, Any]:
    settings, log_path, last = run.settings, run.path("train.log"), run.path(LAST)
    done = read(last, finite=False).updates or 0 if os.path.exists(last) else 0

    def on_valid(record: dict[str, Any]) -> None:
        if not math.isfinite(float(record["valid_loss"])):
            updates = record["valid_num_updates"]
            raise Diverged(f"the validation loss after {updates} updates is not finite")

    slot.on_updates(done)
    diverged = None
    try:
        if done < settings.updates:
            shutil.rmtree(run.path("downstream"), ignore_errors=True)
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
    device = torch_device(slot.device)
    gpu = "" if device == "cpu" else f"; {torch.cuda.get_device_name(device)}"
    return {
        "arch": run.arch,
        "scheme": run.scheme.label,
        "seed": run.seed,
        "lr": settings.lr,
        "updates": settings.updates,
        "diverged": diverged,
        "final_loss": None if diverged else curve[-1]["loss"],
        **found,
        "machine": processor() + gpu,
        "parameters": parameters_of(last) if os.path.exists(last) else None,
        "downstream": {},
        "measured": {},
    }


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


def _measure(run: Run, name: str, slot: Slot) -> dict[str, float]:
    """Measure checkpoint_last.pt: its accuracies on minimal pairs in %, or its score on a task
    (times 100, the mean over the fine-tuning seeds at the best rate)."""
    settings = run.settings
    # an interrupted measurement resumes, unless what it depends on has changed
    key = json.dumps(settings.measurements()[name], sort_keys=True)
    folder = run.path("downstream", hashlib.sha256(key.encode()).hexdigest()[:8])
    logger.info("%s: %s", run, name)
    if name == PAIRS:
        args = ["tupe-score", run.path(LAST), "--pairs", settings.pairs]
        args += ["--data", settings.data.split(":")[0], "--results", os.path.join(folder, name)]
        if settings.pairs_per_file:
            args += ["--pairs-per-file", str(settings.pairs_per_file)]
    else:
        args = ["tupe-finetune", *settings.finetune_flags, "--data", dict(settings.tasks)[name]]
        args += ["--checkpoint", run.path(LAST), "--output-dir", folder]
        args += ["--fp16"] if settings.fp16 else []
    command = [console_script(args[0]), *args[1:], *(["--cpu"] if settings.cpu else [])]
    os.makedirs(folder, exist_ok=True)
    with open(run.path("downstream.log"), "a", encoding="utf-8") as log:
        log.write(as_shell(command) + "\n")
    train(command, run.path("downstream.log"), lock=slot.lock, env=run.env(slot))
    results = read_json(os.path.join(folder, name, "results.json"))
    if name == PAIRS:
        shares = {name: results["pairs"]["all"]}
        shares |= {f"{name}/{one}": x for one, x in results["pairs"]["phenomena"].items()}
        return {one: 100 * share["accuracy"] for one, share in shares.items()}
    best = [one["metrics"] for one in results["runs"] if one["lr"] == results["best_lr"]]
    # a diverged run counts as 0, as in the tables of tupe-finetune
    scores = [one["valid"][results["selection"]] if one else 0.0 for one in best]
    return {name: 100 * fmean(scores)}


def parameters_of(checkpoint: str) -> int:
    """The number of parameters; a tied LM head, saved twice on a GPU, counts once."""
    tensors = read(checkpoint, finite=False).tensors
    embedding, last = tensors[EMBEDDING], tensors[LM_HEAD + "weight"]
    tied = embedding.numel() if last.equal(embedding) else 0
    return sum(tensor.numel() for name, tensor in tensors.items() if "version" not in name) - tied


def processor() -> str:
    """The processor's name and the number of its cores that may be used."""
    match = None
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            match = re.search(r"^model name\s*: (.*)", file.read(), re.MULTILINE)
    return f"{match[1] if match else 'CPU'}, {cores()} cores"
