"""The learning rate of each scheme: the best of a grid, by short runs with a schedule of their own.

They are kept in OUT/tuning, in a folder for each rate, and resumed like any other run.
"""

import os
from dataclasses import replace
from typing import Any, Dict, List, Sequence, Tuple

from tupe_fairseq.compare.comparison import Comparison, ComparisonRun
from tupe_fairseq.compare.concurrent_runs import PlannedRun
from tupe_fairseq.compare.finished_runs import finished

_VALIDATIONS = 4  # only the last one counts; from the others an interrupted run resumes


def at_each_rate(comparison: Comparison) -> List[Comparison]:
    """The settings of the short runs, for each rate of the grid; warm-up takes the same share."""
    updates = comparison.tune_updates
    return [
        replace(
            comparison,
            folder=os.path.join(comparison.folder, "tuning", f"lr{rate!r}"),
            updates=updates,
            warmup_updates=comparison.warmup_updates * updates // comparison.updates,
            validate_every=max(1, updates // _VALIDATIONS),
            lr=rate,
            tune_lrs=(),
        )
        for rate in comparison.tune_lrs
    ]


def tuning_runs(comparison: Comparison, runs: Sequence[ComparisonRun]) -> List[PlannedRun]:
    """The short runs that decide the rates of these runs, finished ones included.

    Each scheme of each size has one per rate, with the first of its seeds; or with the seed of
    those that are there already, so that seeds which are added later get the same rate.

    Args:
        comparison (Comparison): has a grid.
        runs (sequence of ComparisonRun): the first one of a scheme has its first seed.
    """
    settings = at_each_rate(comparison)
    seeds = {(row["arch"], row["scheme"]): row["seed"] for row in _rows(settings)}
    first: Dict[Tuple[str, str], ComparisonRun] = {}
    for run in runs:
        first.setdefault((run.arch, run.scheme.label), run)
    return [
        (one, replace(run, seed=seeds.get(key, run.seed), note=f"learning rate {one.lr}"))
        for key, run in first.items()
        for one in settings
    ]


def read_tuning(comparison: Comparison) -> List[Dict[str, Any]]:
    """What the finished short runs have shown, for the schemes that have one at each rate.

    Returns:
        list of dict: ``arch``, ``scheme``, ``seed``; ``updates`` of each run; ``rates``, a list of
        ``lr`` and ``final_loss`` (None: diverged); ``lr``, the one with the lowest loss, the lowest
        one if all diverged; ``at_edge``, whether it is the lowest or the highest of the grid.
    Raises:
        ValueError: if a result.json is damaged; the message names it.
    """
    settings = at_each_rate(comparison)
    return [row for row in _rows(settings) if len(row["rates"]) == len(settings)]


def tuned(comparison: Comparison, runs: Sequence[ComparisonRun]) -> List[PlannedRun]:
    """The runs with the settings that each is made with, once their rates are decided."""
    if not comparison.tune_lrs:
        return [(comparison, run) for run in runs]
    rates = {(row["arch"], row["scheme"]): row["lr"] for row in read_tuning(comparison)}
    return [
        (replace(comparison, lr=rates[run.arch, run.scheme.label], tune_lrs=()), run)
        for run in runs
    ]


def _rows(settings: Sequence[Comparison]) -> List[Dict[str, Any]]:
    rows: Dict[Tuple[str, str, int], Dict[str, Any]] = {}
    for one in settings:
        for result in finished(one):
            key = (result["arch"], result["scheme"], result["seed"])
            row = rows.setdefault(
                key, {**dict(zip(("arch", "scheme", "seed"), key)), "updates": one.updates}
            )
            rate = {"lr": one.lr, "final_loss": result["final_loss"]}
            row.setdefault("rates", []).append(rate)
    for row in rows.values():
        whole = [rate for rate in row["rates"] if rate["final_loss"] is not None]
        best = min(whole, key=lambda rate: rate["final_loss"], default=row["rates"][0])
        row["lr"] = best["lr"]
        row["at_edge"] = best in (row["rates"][0], row["rates"][-1])
    return list(rows.values())
