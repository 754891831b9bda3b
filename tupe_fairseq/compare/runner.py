"""A whole comparison: short runs that decide the rates, the runs, then the results."""

import logging
import os
from collections.abc import Sequence
from typing import Any

from tupe_fairseq.compare.aggregate import summarize_schemes
from tupe_fairseq.compare.claims import Claim, judge
from tupe_fairseq.compare.comparison import NEW_SETTINGS, Comparison, ComparisonRun
from tupe_fairseq.compare.concurrent_runs import PlannedRun, make_runs
from tupe_fairseq.compare.finished_runs import finished, finished_schemes
from tupe_fairseq.compare.pace import paced, speed_runs
from tupe_fairseq.compare.parse_schemes import Scheme
from tupe_fairseq.compare.report import report
from tupe_fairseq.compare.time_limit import OutOfTime, TimeLimit
from tupe_fairseq.compare.tuning import read_tuning, tuned, tuning_runs
from tupe_fairseq.files.lock import locked
from tupe_fairseq.files.results import write_results
from tupe_fairseq.files.steps import keep_settings

logger = logging.getLogger("tupe-compare")


def run_comparison(
    comparison: Comparison,
    runs: Sequence[ComparisonRun],
    parameters: dict[tuple[str, Scheme], int],
    baseline: str | None,
    claims: Sequence[Claim],
    devices: Sequence[str | None],
    keep_checkpoints: bool = False,
    limit: TimeLimit | None = None,
) -> str:
    """Make the unfinished runs, and write the results of all finished ones.

    Args:
        comparison (Comparison): what all runs share.
        runs (sequence of ComparisonRun): the runs; finished runs of other calls count in the
            results, too.
        parameters (dict): size and scheme to the parameters of the position encoding.
        baseline (str or None): label of the scheme that the others are compared with; by default
            ``learned``, or the first one if that is not among them.
        claims (sequence of Claim): what is to be judged.
        devices (sequence): a value of CUDA_VISIBLE_DEVICES, None for the CPU, for each
            of the concurrent runs.
        keep_checkpoints (bool): whether finished runs keep checkpoint_last.pt.
        limit (TimeLimit or None): when this call has to end.
    Returns:
        str: the text of results.md.
    Raises:
        OutOfTime: if the time is over; the message says what is left, and a further call makes it.
        ValueError: if the folder has other settings or is in use, if a run fails, or if there is
            no run of the baseline.
    """
    order = [(run.arch, run.scheme.label) for run in runs]
    baseline = _baseline(comparison, baseline, [label for _, label in order])
    os.makedirs(comparison.folder, exist_ok=True)
    with locked(comparison.folder) as lock:
        settings = comparison.settings()
        keep_settings(comparison.folder, settings, since=NEW_SETTINGS)
        finished(comparison)  # a damaged one is refused before anything runs

        def write() -> dict[str, Any]:
            return _write_results(comparison, settings, baseline, order, claims)

        def make(planned: Sequence[PlannedRun], kind: str, then: str = "", **options) -> None:
            todo = [(own, run) for own, run in planned if not own.is_finished(run)]
            logger.info("%d of %d %s left", len(todo), len(planned), kind)
            left = make_runs(todo, parameters, devices, lock, limit or TimeLimit(), **options)
            if left:
                raise OutOfTime(f"{left} of {len(planned)} {kind} are left{then}")

        then = f", and then {len(runs)} runs"
        planned = [(comparison, run) for run in runs]
        if comparison.seconds:
            make(speed_runs(comparison, runs), "short runs for speed", then)
            planned = paced(comparison, runs)
        if comparison.tune_lrs:
            make(tuning_runs(planned), "short runs for learning rates", then)
            planned = tuned(planned)
        make(
            planned,
            "runs",
            keep_checkpoints=keep_checkpoints,
            on_finished=write,
        )
        results = write()
        # only now: matplotlib takes a second, and logs while it is imported
        from tupe_fairseq.compare.claim_figure import write_claims
        from tupe_fairseq.compare.final_losses import write_final_losses
        from tupe_fairseq.compare.loss_curves import write_figures
        from tupe_fairseq.compare.readout_figure import write_readouts

        for draw in (write_figures, write_final_losses, write_readouts, write_claims):
            draw(results, comparison.folder)
    return report(results)


def first_runs(
    comparison: Comparison, runs: Sequence[ComparisonRun]
) -> tuple[list[PlannedRun], str]:
    """The runs that a comparison begins with, and what comes then, to which the number is missing.

    Those are all, unless short ones have to decide how long they are, or at which rate they learn.
    """
    if comparison.seconds:
        return speed_runs(comparison, runs), "then %d runs, as long as these tell"
    planned = [(comparison, run) for run in runs]
    if comparison.tune_lrs:
        return tuning_runs(planned), "then %d runs, each at the best rate of its scheme"
    return planned, ""


def _baseline(comparison: Comparison, given: str | None, order: Sequence[str]) -> str:
    known = list(dict.fromkeys([*order, *finished_schemes(comparison)]))
    if given is None:
        return "learned" if "learned" in known else known[0]
    if given not in known:
        raise ValueError(
            f"--baseline {given!r} is neither in --schemes nor finished in {comparison.folder}; "
            f"those are {', '.join(map(repr, known))}"
        )
    return given


def _write_results(
    comparison: Comparison,
    settings: dict[str, Any],
    baseline: str,
    order: Sequence[tuple[str, str]],
    claims: Sequence[Claim],
) -> dict[str, Any]:
    """Write results.json and results.md, and return the content of the first."""
    runs = finished(comparison)
    known = [*order, *((run["arch"], run["scheme"]) for run in runs)]
    archs, schemes = (list(dict.fromkeys(names)) for names in zip(*known))

    def place(found: dict[str, Any]) -> tuple:
        scheme = found["scheme"]
        return archs.index(found["arch"]), scheme != baseline, schemes.index(scheme), found["seed"]

    tuning = [row for row in read_tuning(comparison) if row["scheme"] in schemes]
    results = {
        "settings": settings,
        "machines": list(dict.fromkeys(run["machine"] for run in runs)),
        "baseline": baseline,
        "tuning": sorted(tuning, key=place),
        "summary": summarize_schemes(sorted(runs, key=place), baseline),
        "claims": [
            {"arch": arch, **judge(claim, [run for run in runs if run["arch"] == arch])}
            for arch in archs
            for claim in claims
        ],
        "runs": sorted(runs, key=place),
    }
    write_results(comparison.folder, results, report(results))
    return results
