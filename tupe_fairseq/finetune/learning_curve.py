"""What a run's log says of each epoch."""

import os
from typing import Any

from tupe_fairseq.fairseq_runs.train import record_of


def read_curve(path: str, metric: str) -> list[dict[str, Any]]:
    """The training loss and the score of each epoch that was validated.

    A training that began again from an earlier epoch counts from there.

    Args:
        path (str): train.log of a run; it may be missing.
        metric (str): by which checkpoints are picked.
    Returns:
        list of dict: ``epoch`` (int, from 1); ``score`` (float), times 100; ``loss`` (float), as
        fairseq logs it, or NaN if the run ended before.
    """
    points: dict[int, dict[str, Any]] = {}
    if not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8", errors="replace") as log:
        for line in log:
            validated, trained = record_of(line, "valid"), record_of(line, "train")
            if validated is not None and f"valid_{metric}" in validated:
                epoch, score = int(validated["epoch"]), float(validated[f"valid_{metric}"])
                points = {number: points[number] for number in points if number < epoch}
                points[epoch] = {"epoch": epoch, "score": score, "loss": float("nan")}
            elif trained is not None and int(trained["epoch"]) in points:  # it comes after
                points[int(trained["epoch"])]["loss"] = float(trained["train_loss"])
    return list(points.values())
