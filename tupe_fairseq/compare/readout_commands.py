"""The commands that read a trained model out: tupe-score and tupe-finetune."""

import os
from typing import NamedTuple

from tupe_fairseq.compare.comparison import Comparison, ComparisonRun
from tupe_fairseq.compare.readouts import PAIRS
from tupe_fairseq.fairseq_runs.command import console_script
from tupe_fairseq.fairseq_runs.save_dir import LAST


class Readout(NamedTuple):
    """One command that reads something out of a checkpoint.

    Args:
        name (str): ``pairs`` or ``CoLA/cls``.
        words (list of str): the command.
        results (str): the results.json that it writes.
    """

    name: str
    words: list[str]
    results: str


def readout_commands(comparison: Comparison, run: ComparisonRun, folder: str) -> list[Readout]:
    """One for each readout of the comparison, in the order of their names.

    Args:
        comparison (Comparison): what all runs share.
        run (ComparisonRun): a trained one, with its checkpoint.
        folder (str): what they write goes into folders in it.
    """
    wanted, checkpoint = comparison.readouts, comparison.path(run, LAST)
    cpu = ["--cpu"] if comparison.cpu else []
    found = []
    if wanted.pairs:
        out = os.path.join(folder, PAIRS)
        words = [console_script("tupe-score"), checkpoint, "--pairs", wanted.pairs]
        words += ["--data", comparison.data.split(":")[0], "--results", out, *cpu]
        if wanted.pairs_per_file:
            words += ["--pairs-per-file", str(wanted.pairs_per_file)]
        found.append(Readout(PAIRS, words, os.path.join(out, "results.json")))
    for task, name in zip(wanted.tasks, wanted.task_names()):
        for pooling in wanted.poolings:
            # a folder for each pooling, since a folder of runs has one setting
            out = os.path.join(folder, pooling)
            words = [console_script("tupe-finetune"), "--task", name, "--data", task]
            words += ["--checkpoint", checkpoint, "--output-dir", out, "--pooling", pooling]
            words += [*cpu, *(["--fp16"] if comparison.fp16 else []), *wanted.finetune_flags]
            found.append(
                Readout(f"{name}/{pooling}", words, os.path.join(out, name, "results.json"))
            )
    return found
