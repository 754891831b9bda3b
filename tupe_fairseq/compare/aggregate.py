"""Statistics over seeds, and the updates to reach the baseline's loss."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from tupe_fairseq.compare.measures import measures
from tupe_fairseq.compare.student_t import t_quantile

Result = dict[str, Any]


def spread(values: Sequence[float]) -> dict[str, Any] | None:
    """Mean and spread of a number over seeds.

    Returns:
        dict: ``n``, ``mean``, ``min``, ``max``, and ``margin95``: the 95% interval of the mean, by
        Student's t, is the mean less and plus the margin; None for one value.  None for no values.
    """
    if not values:
        return None
    n, margin = len(values), None
    if n > 1:
        margin = t_quantile(n - 1) * statistics.stdev(values) / math.sqrt(n)
    return {
        "n": n,
        "mean": statistics.fmean(values),
        "min": min(values),
        "max": max(values),
        "margin95": margin,
    }


def differences(runs: Sequence[Result], baseline: Sequence[Result]) -> dict[int, float]:
    """The final loss of runs less that of the baseline's run with the same seed.

    Args:
        runs (sequence of dict): the runs of one size and scheme; diverged ones have none.
        baseline (sequence of dict): those of the baseline, of the same size.
    Returns:
        dict: seed to the difference, for the seeds that both have.
    """
    targets = _final_losses(baseline)
    own = _final_losses(runs)
    return {seed: loss - targets[seed] for seed, loss in own.items() if seed in targets}


def _final_losses(runs: Sequence[Result]) -> dict[int, float]:
    return {run["seed"]: run["final_loss"] for run in runs if run["diverged"] is None}


def updates_to_reach(curve: Sequence[dict[str, float]], target: float) -> float | None:
    """The updates after which the loss first reaches the target.

    Linear between validations.  If the very first one is below the target, its updates are
    returned: the target was reached there or before.

    Args:
        curve (list of dict): ``updates`` and ``loss`` of each validation, in their order.
        target (float): the loss.
    Returns:
        float: None if it is not reached.
    """
    before = None
    for point in curve:
        if point["loss"] <= target:
            if before is None:
                return float(point["updates"])
            share = (before["loss"] - target) / (before["loss"] - point["loss"])
            return before["updates"] + share * (point["updates"] - before["updates"])
        before = point
    return None


def summarize_schemes(results: list[Result], baseline: str) -> list[dict[str, Any]]:
    """The statistics of each scheme, for each model size.

    Args:
        results (list of dict): the finished runs, in the order of sizes and schemes.
        baseline (str): label of the scheme that the others are compared with.
    Returns:
        list of dict: one per size and scheme: ``arch``, ``scheme``, ``updates`` of each run,
        ``seeds``, ``diverged`` (seeds); of the seeds that did not diverge :func:`spread` of
        ``final_loss``, ``best_loss``, ``seconds``, ``words_per_second``, ``peak_memory_mib``;
        ``parameters``, ``position_parameters``, ``side_by_side`` (the most concurrent runs);
        ``measures``, the spread of each of :func:`tupe_fairseq.compare.measures.measures`;
        ``difference``, the spread of the final loss less the baseline's of the same size and seed;
        ``to_baseline``, see :func:`_to_baseline`.
    """
    table = []
    for arch, label in dict.fromkeys((result["arch"], result["scheme"]) for result in results):
        of_size = [result for result in results if result["arch"] == arch]
        of_baseline = [result for result in of_size if result["scheme"] == baseline]
        runs = sorted((r for r in of_size if r["scheme"] == label), key=lambda r: r["seed"])
        whole = [run for run in runs if run["diverged"] is None]
        row = {
            "arch": arch,
            "scheme": label,
            "updates": runs[0]["updates"],
            "seeds": [run["seed"] for run in runs],
            "diverged": [run["seed"] for run in runs if run["diverged"] is not None],
            "parameters": runs[0]["parameters"],
            "position_parameters": runs[0]["position_parameters"],
            "side_by_side": max(run["side_by_side"] for run in runs),
        }
        for key in ("final_loss", "best_loss", "seconds", "words_per_second", "peak_memory_mib"):
            row[key] = spread([run[key] for run in whole if run[key] is not None])
        row["measures"] = _spreads([measures(run) for run in whole])
        row["difference"] = spread(list(differences(runs, of_baseline).values()))
        row["to_baseline"] = _to_baseline(runs, of_baseline)
        table.append(row)
    return table


def _spreads(found: list[dict[str, float]]) -> dict[str, Any]:
    """Of each measure, over the runs that have it."""
    names = dict.fromkeys(name for one in found for name in one)
    return {name: spread([one[name] for one in found if name in one]) for name in names}


def _to_baseline(runs: list[Result], of_baseline: list[Result]) -> dict[str, Any] | None:
    """The updates in which a scheme reaches the baseline's final loss of the same seed.

    A diverged run has not reached it.

    Returns:
        dict: ``per_seed``, seed to updates or None; ``of``, the number of seeds; ``reached``, how
        many of them reached it; ``updates``, and ``fraction`` of the baseline's, their spread over
        the seeds that reached it.  None if no seed has a baseline.
    """
    targets = _final_losses(of_baseline)
    per_seed = {
        run["seed"]: (
            updates_to_reach(run["curve"], targets[run["seed"]])
            if run["diverged"] is None
            else None
        )
        for run in runs
        if run["seed"] in targets
    }
    if not per_seed:
        return None
    updates = of_baseline[0]["updates"]
    reached = [value for value in per_seed.values() if value is not None]
    return {
        "per_seed": per_seed,
        "of": len(per_seed),
        "reached": len(reached),
        "updates": spread(reached),
        "fraction": spread([value / updates for value in reached]),
    }
