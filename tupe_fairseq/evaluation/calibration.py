"""Calibration: how a model's confidence compares with its accuracy, and temperature scaling.

Logits are divided by the temperature that gives the validation set the highest likelihood:
Guo et al. 2017, Section 4.2, https://arxiv.org/abs/1706.04599
"""

import logging
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tupe_fairseq.data.task import Task
from tupe_fairseq.files import file_sha256, read_json, write_json
from tupe_fairseq.finetune.task_data import Labels, TaskData
from tupe_fairseq.inference.texts import logits_of_tokens, probabilities

logger = logging.getLogger(__name__)

TEMPERATURE = "temperature.json"
_LIMIT = 20.0
_BINS = 10


def read_or_fit(checkpoint: str, data: str | None, task: Task, encoder: Any, head: Any) -> float:
    """The temperature in the checkpoint's folder; if missing, it is fitted on valid of ``data``."""
    if task.is_regression:
        raise ValueError(f"--calibrate is for probabilities, but {task.name} is a regression")
    path = os.path.join(os.path.dirname(checkpoint), TEMPERATURE)
    model = file_sha256(checkpoint)
    record = read_json(path) if os.path.isfile(path) else {}
    if record.get("checkpoint") != model:
        what = f"{path} is of another checkpoint" if record else f"there is no {path}"
        if data is None or "valid" not in task.splits:
            raise ValueError(
                f"{what}; give --data, the folder of the task, to fit it on the validation set"
            )
        content = TaskData.load(data)
        logits = logits_of_tokens(list(content.texts("valid")), task, encoder, head)
        record = {"checkpoint": model, **fit(task, logits, content.targets("valid"))}
        write_json(path, record)
        text = "expected calibration error on %d rows of valid %.3f, before %.3f; wrote %s"
        logger.info(text, record["rows"], record["after"], record["before"], path)
    logger.info("temperature %.3f", record["temperature"])
    return record["temperature"]


def fit(task: Task, logits: Sequence[np.ndarray], targets: Labels) -> dict[str, Any]:
    """The temperature, and the expected calibration error on these rows before and after."""
    from scipy.optimize import minimize_scalar

    is_tagging = task.kind == "tagging"
    x = (np.concatenate if is_tagging else np.stack)(logits).astype(np.float64)
    y = np.concatenate(targets) if is_tagging else targets

    def loss(log_temperature: float) -> float:
        scaled = x / math.exp(log_temperature)
        if task.kind == "multilabel":
            return np.logaddexp(0, np.where(y, -scaled, scaled)).mean()
        return (np.logaddexp.reduce(scaled, axis=1) - scaled[np.arange(len(y)), y]).mean()

    limit = math.log(_LIMIT)
    best = minimize_scalar(loss, bounds=(-limit, limit), method="bounded").x
    if abs(best) > limit - 0.01:
        raise ValueError(
            f"no temperature of 1/{_LIMIT:g} to {_LIMIT:g} fits the {len(logits)} rows of valid: "
            "too many are right, or the model has learned nothing; drop --calibrate"
        )
    temperature = float(f"{math.exp(best):.6g}")
    before, after = (
        calibration(decisions(task, logits, targets, t))["expected_calibration_error"]
        for t in (1.0, temperature)
    )
    return {"temperature": temperature, "rows": len(logits), "before": before, "after": after}


def decisions(
    task: Task, logits: Sequence[np.ndarray], targets: Labels, temperature: float = 1.0
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each row the model's confidence in each decision, and which decisions are right.

    A decision is the class, the tag of a word, or for multilabel whether the row has a label.
    """
    found = []
    for x, target in zip(logits, targets):
        shares = probabilities(task, x / temperature)
        if task.kind == "multilabel":
            found.append((np.maximum(shares, 1 - shares), (x > 0) == target))
        else:
            right = np.atleast_1d(x.argmax(axis=-1) == target)
            found.append((np.atleast_1d(shares.max(axis=-1)), right))
    return found


def calibration(rows: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Expected calibration error: the mean distance of confidence and accuracy, over ten bins.

    Guo et al. 2017, Eq. 5, https://arxiv.org/abs/1706.04599
    """
    sure, right = map(np.concatenate, zip(*rows))
    places = np.clip(np.ceil(sure * _BINS).astype(int) - 1, 0, _BINS - 1)
    counts = np.bincount(places, minlength=_BINS)
    sums = [np.bincount(places, weights, minlength=_BINS) for weights in (sure, right)]
    error = np.abs(sums[0] - sums[1]).sum() / len(sure)
    means = [(x / np.maximum(counts, 1)).tolist() for x in sums]
    bins = [
        {"from": n / _BINS, "to": (n + 1) / _BINS, "number": k, "confidence": a, "right": b}
        for n, (k, a, b) in enumerate(zip(counts.tolist(), *means))
    ]
    return {
        "expected_calibration_error": float(error),
        "confidence": float(sure.mean()),
        "right": float(right.mean()),
        "bins": [one for one in bins if one["number"]],
    }
