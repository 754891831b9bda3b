"""The learning rate of each scheme: the best of --tune-lrs, by short runs with the whole schedule.

They are in OUT/tuning, in a folder for each rate, and have seed 1: seeds that are added later have
the same rate.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tupe_fairseq.compare.command import Run
from tupe_fairseq.runs.study import finished

_VALIDATIONS = 4


def tuning_runs(runs: Sequence[Run]) -> list[Run]:
    """One run for each size, scheme and rate."""
    own = runs[0].settings
    short = replace(
        own,
        updates=own.tune_updates,
        warmup_updates=own.warmup_updates * own.tune_updates // own.updates,
        validate_every=max(1, own.tune_updates // _VALIDATIONS),
        pairs="",
        tasks=(),
    )
    folders = {lr: os.path.join(own.folder, "tuning", f"lr{lr!r}") for lr in own.tune_lrs}
    return [
        Run(replace(short, folder=folders[lr], lr=lr), arch, scheme, seed=1)
        for arch, scheme in dict.fromkeys((run.arch, run.scheme) for run in runs)
        for lr in own.tune_lrs
    ]


def tuned(runs: Sequence[Run], rows: Sequence[dict[str, Any]]) -> list[Run]:
    """The runs, each with the rate of its row of :func:`read_tuning`."""
    rates = {(row["arch"], row["scheme"]): row["lr"] for row in rows}
    return [
        replace(run, settings=replace(run.settings, lr=rates[run.arch, run.scheme.label]))
        for run in runs
    ]


def read_tuning(folder: str) -> list[dict[str, Any]]:
    """A row for each size and scheme: ``arch``, ``scheme``, ``updates``, ``losses`` (rate to final
    loss, None if it diverged), ``lr`` (the best one) and ``at_edge`` (whether it is an extreme)."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for run in finished(folder, "tuning", "*", "*", "*").values():
        row = {name: run[name] for name in ("arch", "scheme", "updates")}
        row = rows.setdefault((run["arch"], run["scheme"]), {**row, "losses": {}})
        row["losses"][run["lr"]] = run["final_loss"]
    for row in rows.values():
        losses = row["losses"] = dict(sorted(row["losses"].items()))
        finite = [lr for lr in losses if losses[lr] is not None]
        row["lr"] = min(finite, key=losses.__getitem__, default=min(losses))
        # of two rates each is an extreme
        row["at_edge"] = len(losses) > 2 and row["lr"] in (min(losses), max(losses))
    return list(rows.values())
