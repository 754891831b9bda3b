"""95% intervals: over the rows of a set, and over the seeds of a training."""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np

from tupe_fairseq.data.metrics import METRICS, metrics_of_counts

#: draws of a bootstrap interval, and their seed
DRAWS, _SEED = 1000, 1
OVER_ROWS = (
    f"In brackets: 95% intervals over the rows, by {DRAWS:,} draws of as many rows, with repeats "
    "(bootstrap), or Wilson's if these do not differ."
)
OVER_SEEDS = "In brackets after a mean of seeds: its 95% interval over the seeds (Student's t)."


def over_rows(names: Iterable[str], *sides: Any) -> dict[str, dict[str, Any]]:
    """``value`` and ``interval`` of each metric; both are None if it is undefined.

    ``sides`` are predictions and targets as metrics take them.
    """
    number = len(sides[0])
    measured, draw = metrics_of_counts(names, *sides), np.random.default_rng(_SEED)
    drawn = (draw.integers(number, size=number) for _ in range(DRAWS))
    draws = [measured(np.bincount(rows, minlength=number) * 1.0) for rows in drawn]
    found: dict[str, dict[str, Any]] = {}
    for name, value in measured(np.ones(number)).items():
        if math.isnan(value):
            found[name] = {"value": None, "interval": None}
            continue
        ends = np.nanquantile([one[name] for one in draws], [0.025, 0.975]).tolist()
        if ends[1] - ends[0] <= 1e-9:  # rounding; such as when all rows are right
            ends = wilson(value, number, METRICS[name].lowest)
        found[name] = {"value": value, "interval": ends}
    return found


def wilson(value: float, rows: int, lowest: float = 0.0) -> list[float]:
    """The interval of a share of independent rows, or of a value as a share of lowest to 1.

    Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953
    """
    width, z = 1 - lowest, 1.959964
    share, weight = (value - lowest) / width, z**2 / rows
    middle = (share + weight / 2) / (1 + weight)
    half = math.sqrt(weight * (share * (1 - share) + weight / 4)) / (1 + weight)
    return [lowest + width * min(1.0, max(0.0, middle + side * half)) for side in (-1, 1)]


def over_seeds(values: Sequence[float | None]) -> dict[str, Any] | None:
    """``n``, ``mean``, ``min``, ``max`` of the values that are not None; None if there are none.

    The interval of the mean, by Student's t, is the mean ± ``margin95`` (None for one value).
    """
    from scipy.stats import t

    known = [value for value in values if value is not None]
    if not known:
        return None
    n, margin = len(known), None
    if n > 1:
        margin = float(t.ppf(0.975, n - 1)) * stdev(known) / math.sqrt(n)
    return {"n": n, "mean": fmean(known), "min": min(known), "max": max(known), "margin95": margin}
