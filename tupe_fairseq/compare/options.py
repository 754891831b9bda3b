"""The options of tupe-compare."""

import os
from dataclasses import dataclass
from typing import Any

from tupe_fairseq.compare.schemes import Scheme, schemes
from tupe_fairseq.flags import (
    at_least,
    comma_list,
    count,
    folder_with,
    one_of,
    option,
    positive,
    shown_as,
    writable,
)
from tupe_fairseq.options import ARCHITECTURES, POSITION_ENCODINGS, flag, violation
from tupe_fairseq.runs.options import StudyOptions

_TRAINING = "training, the same for all runs"


@shown_as("DATA")
def _folders(value: Any) -> str:
    """Folders separated by colons; fairseq reads dictionary and validation set from the first."""
    folders = str(value).split(":")
    folder_with("dict.txt", "valid.bin", "valid.idx")(folders[0])
    for folder in folders:
        folder_with("train.bin", "train.idx")(folder)
    return ":".join(map(os.path.abspath, folders))


@dataclass(kw_only=True)
class CompareOptions(StudyOptions):
    """Pre-train a tupe_roberta with each position encoding and seed, everything else equal, and
    write tables with 95% intervals and figures to OUT. The same command resumes; schemes, sizes
    and seeds can be added. @FILE stands for the flags in a file.

    example: tupe-compare data-bin --output-dir out --schemes "learned; tupe --rel-pos" --updates
    2000
    """

    takes_files = True
    data: str = option(
        "data of tupe-prepare-pretrain; colons separate parts",
        _folders, positional=True, recorded=False,
    )  # fmt: skip
    output_dir: str = option("for runs and results", writable, metavar="OUT", recorded=False)
    schemes: list[Scheme] = option(
        "position encodings separated by semicolons, each with its flags (see tupe-options); all "
        f"are compared with learned, or else the first. They are {', '.join(POSITION_ENCODINGS)}",
        schemes, recorded=False,
    )  # fmt: skip
    updates: int = option("updates of each run", count)
    seeds: list[int] = option(
        "two give no interval", comma_list(at_least(0)), "1,2,3", recorded=False
    )
    arch: list[str] = option(
        "sizes, separated by commas",
        comma_list(one_of(*ARCHITECTURES)), "tupe_roberta_tiny", group=_TRAINING,
        recorded=False,
    )  # fmt: skip
    warmup_updates: int | None = option(
        "updates until the peak rate", at_least(0), None, unset="5% of --updates", group=_TRAINING
    )
    validate_every: int | None = option(
        "updates between validations and checkpoints",
        count, None, unset="a tenth of --updates", group=_TRAINING,
    )  # fmt: skip
    batch_size: int = option("in samples", count, 16, group=_TRAINING)
    tokens_per_sample: int = option("length of a sample", at_least(3), 128, group=_TRAINING)
    lr: float | None = option(
        "peak learning rate", positive, None, unset="0.001", group=_TRAINING, metavar="RATE"
    )
    tune_lrs: list[float] | None = option(
        "instead of --lr: per scheme, the best in short runs",
        comma_list(positive), None, group=_TRAINING, not_with=("lr",),
    )  # fmt: skip
    tune_updates: int | None = option(
        "of the short runs",
        count, None, unset="a tenth of --updates", group=_TRAINING, needs="tune_lrs",
    )  # fmt: skip

    def check(self) -> None:
        for scheme in self.schemes:  # not in its type: --user-dir registers names
            if words := violation(scheme.name, POSITION_ENCODINGS):
                raise ValueError(f"--schemes: {scheme.name!r} must be {words}")
        if self.tune_lrs and len(self.tune_lrs) < 2:
            raise ValueError("--tune-lrs takes two or more rates; for a single rate, use --lr")
        tenth = max(1, self.updates // 10)
        usual = {"warmup_updates": self.updates // 20, "validate_every": tenth}
        for name, default in {**usual, "tune_updates": tenth if self.tune_lrs else 0}.items():
            value = getattr(self, name)
            if value is None:
                setattr(self, name, default)
            elif value > self.updates:
                raise ValueError(
                    f"{flag(name)} ({value}) is above --updates ({self.updates}); lower it"
                )
        self.tune_lrs, self.lr = tuple(sorted(self.tune_lrs or ())), self.lr or 1e-3
        super().check()  # imports torch
