"""A whole comparison: tuned learning rates, runs, tables and figures."""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from tupe_fairseq.compare.pre_training import PreTraining
from tupe_fairseq.compare.results import finished_schemes, page_of, write_results
from tupe_fairseq.data.indexed import token_counts
from tupe_fairseq.data.tokenizer import copy_vocabulary
from tupe_fairseq.files import file_sha256
from tupe_fairseq.runs.process import LAST, remove_checkpoints
from tupe_fairseq.runs.study import Study, best_rate, finished

logger = logging.getLogger("tupe-compare")


class Comparison(Study):
    """The runs of a comparison, and before them short ones that pick their learning rates."""

    runs: Sequence[PreTraining]

    @cached_property
    def record(self) -> dict[str, Any]:
        """With hashes of the data instead of paths."""
        folders = self.options.data.split(":")
        first = [os.path.join(folders[0], name) for name in ("dict.txt", "valid.bin")]
        data: dict[str, Any] = {os.path.basename(path): file_sha256(path) for path in first}
        data["train.bin"] = [file_sha256(os.path.join(x, "train.bin")) for x in folders]
        return {**self.options.settings(), "data": data}

    def first_runs(self) -> list[PreTraining]:
        return tuning_runs(self.runs) or [*self.runs]

    def train_and_report(self) -> str:
        """The results have all finished runs of the folder, also those of earlier commands.

        Schemes are compared with learned positions, or else with the first scheme.
        """
        from tupe_fairseq.compare.figures import draw_loss

        folder, runs = self.folder, self.runs
        order = list(dict.fromkeys(run.scheme.label for run in runs))
        known = [*order, *finished_schemes(folder)]
        baseline = "learned" if "learned" in known else known[0]
        unigram = unigram_loss(self.options.data)

        def write() -> dict[str, Any]:
            return write_results(folder, self.record, baseline, order, read_tuning(folder), unigram)

        def finish(run: PreTraining, result: dict[str, Any]) -> None:
            is_kept = self.options.keep_checkpoints and result["diverged"] is None
            remove_checkpoints(run.folder, keep=LAST if is_kept else "")
            if is_kept:
                copy_vocabulary(self.options.data.split(":")[0], run.folder)
            if result["final_loss"] is not None:
                logger.info("%s: %.3f bits", run, result["final_loss"])
            write()

        if self.options.tune_lrs:
            logger.info("short runs at each of --tune-lrs, in tuning/")
            self.train_all(tuning_runs(runs), lambda run, _: remove_checkpoints(run.folder))
            no_rate = {(run.arch, run.scheme) for run in self.failed}
            runs = [run for run in runs if (run.arch, run.scheme) not in no_rate]
            runs = tuned(runs, read_tuning(folder))
        self.train_all(runs, finish)
        if not finished_schemes(folder):
            return ""
        results = write()
        draw_loss(results, folder)
        return page_of(results)


# ---- The learning rate of each scheme ----------------------------------------------------------


def tuning_runs(runs: Sequence[PreTraining]) -> list[PreTraining]:
    """A short run for each size, scheme and rate, in OUT/tuning.

    They have seed 1, so that seeds added later get the same rate.
    """
    return [
        replace(run, seed=1, lr=lr, is_short=True)
        for run in {(run.arch, run.scheme): run for run in runs}.values()
        for lr in run.options.tune_lrs
    ]


def tuned(runs: Sequence[PreTraining], rows: Sequence[dict[str, Any]]) -> list[PreTraining]:
    """The runs, each with the best rate of its row in :func:`read_tuning`, if it has one."""
    rates = {(row["arch"], row["scheme"]): row["lr"] for row in rows}
    for (arch, scheme), rate in rates.items():
        if rate is None:
            text = "%s, %s is not trained: it diverged at each of --tune-lrs"
            logger.warning(text, arch, scheme)
    return [
        replace(run, lr=rate)
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


def unigram_loss(data: str) -> float | None:
    """The loss of the training set's token frequencies on valid, in bits per token.

    One is added to each count. None for data in another format than fairseq-preprocess's default.
    """
    folders = data.split(":")
    try:
        parts = [token_counts(os.path.join(folder, "train")) for folder in folders]
        valid = token_counts(os.path.join(folders[0], "valid"))
    except ValueError:
        return None
    counts = np.ones(max(map(len, [*parts, valid])))
    for part in parts:
        counts[: len(part)] += part
    bits = np.log2(counts.sum()) - np.log2(counts[: len(valid)])
    return float(valid @ bits / valid.sum())
