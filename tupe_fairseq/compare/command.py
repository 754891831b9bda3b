"""The settings of a comparison, the fairseq-train command of each run, and their checks."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tupe_fairseq.compare.schemes import FLAGS, Scheme
from tupe_fairseq.data.indexed import token_counts
from tupe_fairseq.files import file_sha256
from tupe_fairseq.runs import study
from tupe_fairseq.runs.process import parse_training

_NEVER = 10**9


@dataclass(frozen=True)
class Settings:
    """What the runs of a comparison share, named as the flags of tupe-compare; paths are absolute.

    Each validation writes a checkpoint.
    """

    folder: str
    data: str
    updates: int
    warmup_updates: int
    validate_every: int
    batch_size: int = 16
    tokens_per_sample: int = 128
    lr: float = 1e-3
    tune_lrs: tuple[float, ...] = ()
    tune_updates: int = 0
    train_flags: tuple[str, ...] = ()
    cpu: bool = False
    fp16: bool = False
    threads: int = 1
    user_dir: str | None = None

    def record(self) -> dict[str, Any]:
        """What is equal in all runs, as JSON, with hashes and names instead of paths."""
        folders = self.data.split(":")
        first = [os.path.join(folders[0], name) for name in ("dict.txt", "valid.bin")]
        of_runs = "folder", "cpu", "threads", "user_dir"
        kept = {name: value for name, value in vars(self).items() if name not in of_runs}
        for name in ("train_flags", "tune_lrs"):
            kept[name] = list(kept[name])
        kept["data"] = {os.path.basename(path): file_sha256(path) for path in first}
        kept["data"]["train.bin"] = [file_sha256(os.path.join(x, "train.bin")) for x in folders]
        return kept


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


@dataclass(frozen=True)
class Run(study.Run):
    """One training."""

    settings: Settings
    arch: str
    scheme: Scheme
    seed: int

    def __str__(self) -> str:
        return f"{self.arch}, {self.scheme.label}, seed {self.seed}, lr {self.settings.lr:g}"

    @property
    def folder(self) -> str:
        name = f"{self.scheme.folder}-seed{self.seed}"
        return os.path.join(self.settings.folder, self.arch, name)

    @property
    def threads(self) -> int:
        return self.settings.threads

    @property
    def user_dir(self) -> str | None:
        return self.settings.user_dir

    @property
    def train_flags(self) -> tuple[str, ...]:
        return self.settings.train_flags

    def changeable_flags(self) -> list[object]:
        return [
            *(self.settings.data, "--arch", self.arch, "--task", "tupe_masked_lm"),
            *("--sample-break-mode", "complete", "--adam-betas", "(0.9, 0.98)"),
            *("--lr-scheduler", "polynomial_decay"),
        ]

    def fixed_flags(self) -> list[object]:
        own, every = self.settings, self.settings.validate_every
        # about ten log lines between validations
        tenth = every // 10
        return [
            *("--criterion", "masked_lm", "--tokens-per-sample", own.tokens_per_sample),
            *("--max-positions", own.tokens_per_sample),
            *("--batch-size", own.batch_size, "--skip-invalid-size-inputs-valid-test"),
            *("--lr", repr(own.lr), "--warmup-updates", own.warmup_updates),
            *("--total-num-update", own.updates, "--max-update", own.updates),
            # validations and checkpoints by updates alone, even if epochs are short
            *("--validate-interval", _NEVER, "--validate-interval-updates", every),
            *("--save-interval", _NEVER, "--save-interval-updates", every),
            *("--keep-interval-updates", 1),
            *("--log-interval", tenth if tenth and every % tenth == 0 else every),
            *(*["--cpu"] * own.cpu, *["--fp16"] * own.fp16, *self.scheme.words),
        ]

    def check(self) -> None:
        """Refuse --train-flags that would make the runs differ in more than the scheme."""
        replace(self, scheme=Scheme("learned")).check_train_flags(*FLAGS)


def check_schemes(runs: Sequence[Run]) -> None:
    """Refuse a scheme that cannot be built, or that is the same as another one."""
    from tupe_fairseq.encoder import TupeEncoder
    from tupe_fairseq.modules.record import recorded_options
    from tupe_fairseq.options import TupeConfig

    known: dict[Any, str] = {}
    for run in {(run.arch, run.scheme): run for run in runs}.values():
        label = run.scheme.label
        try:
            config = TupeConfig.from_roberta_options(parse_training(run.command[1:]))
            TupeEncoder(replace(config, num_layers=1, ffn_embed_dim=1))
        except ValueError as error:
            raise ValueError(f"--schemes {label!r}: {error}") from error
        same = known.setdefault((run.arch, *sorted(recorded_options(config).items())), label)
        if same != label:
            raise ValueError(f"--schemes: {label!r} is the same as {same!r}; drop one")
