"""A budget in seconds: how many updates of each scheme take so long, by a short run of each.

A schedule must know its length beforehand.  The short runs are kept in OUT/speed.
"""

import os
from collections.abc import Sequence
from dataclasses import replace

from tupe_fairseq.compare.comparison import Comparison, ComparisonRun
from tupe_fairseq.compare.concurrent_runs import PlannedRun
from tupe_fairseq.compare.finished_runs import finished, first_seeds
from tupe_fairseq.compare.readouts import Readouts

_PART = 20  # updates; the first part does not count, while memory is allocated and code compiled
_PARTS = 3


def speed_settings(comparison: Comparison) -> Comparison:
    """The settings of the short runs: the lowest rate, which does as well as any other."""
    return replace(
        comparison,
        folder=os.path.join(comparison.folder, "speed"),
        updates=_PARTS * _PART,
        warmup_updates=0,
        validate_every=_PART,
        lr=comparison.tune_lrs[0] if comparison.tune_lrs else comparison.lr,
        tune_lrs=(),
        readouts=Readouts(),
        seconds=0.0,
    )


def speed_runs(comparison: Comparison, runs: Sequence[ComparisonRun]) -> list[PlannedRun]:
    """A short run for each size and scheme, finished ones included.

    Args:
        comparison (Comparison): has a number of seconds.
        runs (sequence of ComparisonRun): all runs; the first one of a scheme gives the seed.
    """
    settings = speed_settings(comparison)
    seeds = first_seeds(finished(settings))
    first: dict[tuple[str, str], ComparisonRun] = {}
    for run in runs:
        first.setdefault((run.arch, run.scheme.label), run)
    return [
        (settings, replace(run, seed=seeds.get(key, run.seed), note="for its speed"))
        for key, run in first.items()
    ]


def paced(comparison: Comparison, runs: Sequence[ComparisonRun]) -> list[PlannedRun]:
    """The runs, each with as many updates as its scheme makes in the seconds.

    Raises:
        ValueError: if a short run diverged, or the seconds are not enough for an update.
    """
    lengths = {}
    for result in finished(speed_settings(comparison)):
        name = f"{result['arch']}, {result['scheme']}"
        if result["diverged"] is not None:
            raise ValueError(f"{name} diverged in its first updates; lower --lr or --tune-lrs")
        first, last = result["curve"][0], result["curve"][-1]
        seconds = (last["seconds"] - first["seconds"]) / (last["updates"] - first["updates"])
        updates = int(comparison.seconds / seconds) if seconds > 0 else 0
        if not updates:
            raise ValueError(
                f"--seconds ({comparison.seconds}) is less than an update of {name}, which takes "
                f"{seconds:.3g}; raise it"
            )
        lengths[result["arch"], result["scheme"]] = updates
    return [(comparison.of_length(lengths[run.arch, run.scheme.label]), run) for run in runs]
