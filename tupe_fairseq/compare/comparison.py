"""A whole comparison: tuned learning rates, runs, tables and figures."""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tupe_fairseq.compare.pre_training import PreTraining
from tupe_fairseq.compare.results import draw, finished_schemes, page_of, write_results
from tupe_fairseq.compare.settings import unigram_loss
from tupe_fairseq.data.tokenizer import copy_vocabulary
from tupe_fairseq.runs.process import LAST, remove_checkpoints
from tupe_fairseq.runs.study import Study, best_rate, finished

logger = logging.getLogger("tupe-compare")
_VALIDATIONS = 4  # of a short run


class Comparison(Study):
    """The runs of a comparison, and before them short ones that pick their learning rates."""

    runs: Sequence[PreTraining]

    def __init__(self, runs: Sequence[PreTraining], keep_checkpoints: bool = False):
        self.settings = runs[0].settings
        super().__init__(self.settings.output_dir, runs, keep_checkpoints)

    def record(self) -> dict[str, Any]:
        return self.settings.record()

    def first_runs(self) -> list[PreTraining]:
        return tuning_runs(self.runs) or [*self.runs]

    def work(self) -> str:
        """The results have all finished runs of the folder, also those of earlier commands.

        Schemes are compared with learned positions, or else with the first scheme.
        """
        folder, runs, record = self.folder, self.runs, self.record()
        order = list(dict.fromkeys(run.scheme.label for run in runs))
        known = [*order, *finished_schemes(folder)]
        baseline = "learned" if "learned" in known else known[0]
        unigram = unigram_loss(self.settings.data)

        def write(run: PreTraining | None = None, result: dict[str, Any] | None = None) -> Any:
            if run and result:
                is_kept = self.keeps and result["diverged"] is None
                remove_checkpoints(run.folder, keep=LAST if is_kept else "")
                if is_kept:
                    copy_vocabulary(self.settings.data.split(":")[0], run.folder)
                if result["final_loss"] is not None:
                    logger.info("%s: %.3f bits", run, result["final_loss"])
            return write_results(folder, record, baseline, order, read_tuning(folder), unigram)

        if self.settings.tune_lrs:
            logger.info("short runs at each of --tune-lrs, in tuning/")
            self.make(tuning_runs(runs), lambda run, _: remove_checkpoints(run.folder))
            no_rate = {(run.arch, run.scheme) for run in self.failed}
            runs = [run for run in runs if (run.arch, run.scheme) not in no_rate]
            runs = tuned(runs, read_tuning(folder))
        self.make(runs, write)
        if not finished_schemes(folder):
            return ""
        results = write()
        draw(results, folder)
        return page_of(results)


# ---- The learning rate of each scheme ----------------------------------------------------------


def tuning_runs(runs: Sequence[PreTraining]) -> list[PreTraining]:
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
    return [
        PreTraining(replace(short, lr=lr), arch, scheme, 1, os.path.join("tuning", f"lr{lr!r}"))
        for arch, scheme in dict.fromkeys((run.arch, run.scheme) for run in runs)
        for lr in own.tune_lrs
    ]


def tuned(runs: Sequence[PreTraining], rows: Sequence[dict[str, Any]]) -> list[PreTraining]:
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
        best = best_rate({lr: {1: loss and -loss} for lr, loss in losses.items()})
        row["lr"] = None if losses[best] is None else best
        # with two rates, each is an extreme
        row["at_edge"] = len(losses) > 2 and row["lr"] in (min(losses), max(losses))
    return list(rows.values())
