"""A whole comparison: tuned learning rates, runs, tables and figures."""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tupe_fairseq.compare.command import Run, unigram_loss
from tupe_fairseq.compare.results import draw, finished_schemes, report, write_results
from tupe_fairseq.compare.run import make_run
from tupe_fairseq.files import output_folder, write_json
from tupe_fairseq.runs.grid import run_grid
from tupe_fairseq.runs.study import finished

logger = logging.getLogger("tupe-compare")


def check_folder(runs: Sequence[Run]) -> None:
    """Refuse a folder in which :func:`run_comparison` could not continue."""
    settings = runs[0].settings
    if os.path.isdir(settings.folder):
        with output_folder(settings.folder, "settings.json", settings.record()):
            pass


def run_comparison(
    runs: Sequence[Run],
    baseline: str,
    devices: Sequence[str],
    parallel: int | None = None,
    keep_checkpoints: bool = False,
) -> tuple[str, dict[Run, Exception]]:
    """Make the unfinished runs; returns the report of all finished ones, and the runs that failed.

    ``baseline`` is the label of a scheme.
    """
    settings = runs[0].settings
    folder, order = settings.folder, list(dict.fromkeys(run.scheme.label for run in runs))
    record = settings.record()
    with output_folder(folder, "settings.json", record) as output:
        write_json(os.path.join(folder, "settings.json"), record)

        def grid(planned: Sequence[Run], updates: int, keep: bool, **more) -> dict[Run, Exception]:
            make = partial(make_run, keep_checkpoint=keep)
            return run_grid(
                planned, make, devices, parallel, lock=output.lock, updates=updates,
                is_finished=lambda run: run.result() is not None, **more,
            )  # fmt: skip

        logger.info("command.sh and train.log of each run: %s/", folder)
        unigram = unigram_loss(settings.data)
        failed: dict[Run, Exception] = {}
        if settings.tune_lrs:
            logger.info("short runs at each of --tune-lrs, in tuning/")
            failed = grid(tuning_runs(runs), settings.tune_updates, keep=False)
            no_rate = {(run.arch, run.scheme) for run in failed}
            runs = [run for run in runs if (run.arch, run.scheme) not in no_rate]
            runs = tuned(runs, read_tuning(folder))

        def write(run: Run | None = None, result: dict[str, Any] | None = None) -> dict[str, Any]:
            if result and result["final_loss"] is not None:
                logger.info("%s: %.3f bits", run, result["final_loss"])
            return write_results(folder, record, baseline, order, read_tuning(folder), unigram)

        failed |= grid(runs, settings.updates, keep_checkpoints, on_result=write)
        if not finished_schemes(folder):
            return "", failed
        results = write()
        draw(results, folder)
    return report(results), failed


# ---- The learning rate of each scheme ----------------------------------------------------------

_VALIDATIONS = 4


def tuning_runs(runs: Sequence[Run]) -> list[Run]:
    """A short run for each size, scheme and rate, in OUT/tuning, with the whole schedule.

    They have seed 1, so that seeds added later get the same rate.
    """
    own = runs[0].settings
    short = replace(
        own,
        updates=own.tune_updates,
        warmup_updates=own.warmup_updates * own.tune_updates // own.updates,
        validate_every=max(1, own.tune_updates // _VALIDATIONS),
    )
    folders = {lr: os.path.join(own.folder, "tuning", f"lr{lr!r}") for lr in own.tune_lrs}
    return [
        Run(replace(short, folder=folders[lr], lr=lr), arch, scheme, seed=1)
        for arch, scheme in dict.fromkeys((run.arch, run.scheme) for run in runs)
        for lr in own.tune_lrs
    ]


def tuned(runs: Sequence[Run], rows: Sequence[dict[str, Any]]) -> list[Run]:
    """The runs, each with the best rate of its row in :func:`read_tuning`, if it has one."""
    rates = {(row["arch"], row["scheme"]): row["lr"] for row in rows}
    for (arch, scheme), rate in rates.items():
        if rate is None:
            text = "%s, %s is not trained: it diverged at each of --tune-lrs"
            logger.warning(text, arch, scheme)
    return [
        replace(run, settings=replace(run.settings, lr=rate))
        for run in runs
        if (rate := rates[run.arch, run.scheme.label]) is not None
    ]


def read_tuning(folder: str) -> list[dict[str, Any]]:
    """A row for each size and scheme: ``arch``, ``scheme``, ``updates``, ``losses`` (rate to final
    loss, None if it diverged), ``lr`` (the best one; None if all diverged) and ``at_edge`` (whether
    it is an extreme)."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for run in finished(folder, "tuning", "*", "*", "*").values():
        row = {name: run[name] for name in ("arch", "scheme", "updates")}
        row = rows.setdefault((run["arch"], run["scheme"]), {**row, "losses": {}})
        row["losses"][run["lr"]] = run["final_loss"]
    for row in rows.values():
        losses = row["losses"] = dict(sorted(row["losses"].items()))
        finite = [lr for lr in losses if losses[lr] is not None]
        row["lr"] = min(finite, key=losses.__getitem__, default=None)
        # with two rates, each is an extreme
        row["at_edge"] = len(losses) > 2 and row["lr"] in (min(losses), max(losses))
    return list(rows.values())
