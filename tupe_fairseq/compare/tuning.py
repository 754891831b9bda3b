"""The learning rate of each scheme: the best of a grid, by short runs with a schedule of their own.

They are kept in OUT/tuning, in a folder for each rate, and resumed like any other run.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tupe_fairseq.compare.comparison import Comparison
from tupe_fairseq.compare.concurrent_runs import PlannedRun
from tupe_fairseq.compare.finished_runs import finished, first_seeds
from tupe_fairseq.compare.readouts import Readouts

_VALIDATIONS = 4  # only the last one counts; from the others an interrupted run resumes


def tuning_runs(planned: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The short runs that decide the rates of these runs, finished ones included.

    Each scheme of each size has one per rate, with the first of its seeds; or with the seed of
    those that are there already, so that seeds which are added later get the same rate.

    Args:
        planned (sequence): all runs, with a grid in their settings; the first one of a scheme
            has its first seed.
    """
    first: dict[tuple[str, str], PlannedRun] = {}
    for own, run in planned:
        first.setdefault((run.arch, run.scheme.label), (own, run))
    seeds = first_seeds(_rows(planned[0][0]))
    return [
        (
            _with_rate(own, rate),
            replace(run, seed=seeds.get(key, run.seed), note=f"learning rate {rate}"),
        )
        for key, (own, run) in first.items()
        for rate in own.tune_lrs
    ]


def _with_rate(own: Comparison, rate: float) -> Comparison:
    """The settings of a short run; warm-up takes the same share."""
    updates = own.tune_updates
    return replace(
        own,
        folder=_folder(own, rate),
        updates=updates,
        warmup_updates=own.warmup_updates * updates // own.updates,
        validate_every=max(1, updates // _VALIDATIONS),
        lr=rate,
        tune_lrs=(),
        readouts=Readouts(),
    )


def _folder(comparison: Comparison, rate: float) -> str:
    return os.path.join(comparison.folder, "tuning", f"lr{rate!r}")


def read_tuning(comparison: Comparison) -> list[dict[str, Any]]:
    """What the finished short runs have shown, for the schemes that have one at each rate.

    Returns:
        list of dict: ``arch``, ``scheme``, ``seed``; ``updates`` of each run; ``rates``, a list of
        ``lr`` and ``final_loss`` (None: diverged); ``lr``, the one with the lowest loss, the lowest
        one if all diverged; ``at_edge``, whether it is the lowest or the highest of the grid.
    Raises:
        ValueError: if a result.json is damaged; the message names it.
    """
    rows = _rows(comparison)
    return [row for row in rows if len(row["rates"]) == len(comparison.tune_lrs)]


def tuned(planned: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The runs with the rate of each, once the short runs have decided it."""
    rows = read_tuning(planned[0][0])
    rates = {(row["arch"], row["scheme"]): row["lr"] for row in rows}
    return [
        (replace(own, lr=rates[run.arch, run.scheme.label], tune_lrs=()), run)
        for own, run in planned
    ]


def _rows(comparison: Comparison) -> list[dict[str, Any]]:
    rows: dict[tuple[str, str, int], dict[str, Any]] = {}
    for lr in comparison.tune_lrs:
        for result in finished(replace(comparison, folder=_folder(comparison, lr))):
            key = (result["arch"], result["scheme"], result["seed"])
            row = rows.setdefault(
                key,
                {**dict(zip(("arch", "scheme", "seed"), key)), "updates": result["updates"]},
            )
            rate = {"lr": lr, "final_loss": result["final_loss"]}
            row.setdefault("rates", []).append(rate)
    for row in rows.values():
        whole = [rate for rate in row["rates"] if rate["final_loss"] is not None]
        best = min(whole, key=lambda rate: rate["final_loss"], default=row["rates"][0])
        row["lr"] = best["lr"]
        row["at_edge"] = best in (row["rates"][0], row["rates"][-1])
    return list(rows.values())
