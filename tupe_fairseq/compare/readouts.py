"""What is read out of each trained model beside its loss: minimal pairs, and fine-tuned tasks."""

import os
from dataclasses import dataclass
from typing import Any

from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.files.names import CLS, REPORT

#: the name of the readout of minimal pairs; the others are named TASK/POOLING
PAIRS = "pairs"


@dataclass(frozen=True)
class Readouts:
    """What is read out of every model of a comparison.

    Args:
        pairs (str): absolute path of minimal pairs, as for tupe-score; empty: none.
        pairs_per_file (int): how many pairs of each file, from its beginning; 0: all.
        tasks (tuple of str): absolute folders of prepared tasks, as for tupe-finetune.
        poolings (tuple of str): with what the heads of these are fed, each in turn.
        finetune_flags (tuple of str): further flags of tupe-finetune.
    """

    pairs: str = ""
    pairs_per_file: int = 0
    tasks: tuple[str, ...] = ()
    poolings: tuple[str, ...] = (CLS,)
    finetune_flags: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """The names of all, in order."""
        pairs = [PAIRS] if self.pairs else []
        return pairs + [
            f"{task}/{pooling}" for task in self.task_names() for pooling in self.poolings
        ]

    def task_names(self) -> list[str]:
        """The names of the tasks: those of their folders."""
        return [os.path.basename(folder) for folder in self.tasks]

    def settings(self) -> dict[str, Any]:
        """What the numbers depend on; empty if nothing is read out."""
        found: dict[str, Any] = {}
        if self.pairs:
            found[PAIRS] = _content(self.pairs)
            found["pairs_per_file"] = self.pairs_per_file
        if self.tasks:
            reports = (os.path.join(folder, REPORT) for folder in self.tasks)
            found["tasks"] = dict(zip(self.task_names(), map(file_sha256, reports)))
            found["poolings"] = list(self.poolings)
            found["finetune_flags"] = list(self.finetune_flags)
        return found


def _content(path: str) -> Any:
    """What distinguishes a file, or the files of a folder."""
    if os.path.isfile(path):
        return file_sha256(path)
    files = sorted(os.path.join(place, name) for place, _, names in os.walk(path) for name in names)
    return {os.path.relpath(file, path): file_sha256(file) for file in files}
