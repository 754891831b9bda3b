"""What all runs of a comparison share, and the command of each."""

import os
from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

import tupe_fairseq
from tupe_fairseq.compare.data import fingerprint
from tupe_fairseq.compare.machine import versions
from tupe_fairseq.compare.schemes import Scheme
from tupe_fairseq.training.words import fairseq_train

_NEVER = 10**9


@dataclass(frozen=True)
class Run:
    """One training: an architecture of tupe_roberta, a scheme and fairseq's seed."""

    arch: str
    scheme: Scheme
    seed: int

    @property
    def label(self) -> str:
        return f"{self.arch}, {self.scheme.label}, seed {self.seed}"


@dataclass(frozen=True)
class Comparison:
    """The settings of a comparison.

    Args:
        folder (str): OUT, absolute.
        data (str): the data folder, absolute; several shards with colons between them.
        updates (int): the updates of each run.
        warmup_updates (int): over how many of them the learning rate rises.
        validate_every (int): updates from one validation, and checkpoint, to the next.
        batch_size (int): samples an update.
        tokens_per_sample (int): tokens a sample.
        lr (float): the peak learning rate.
        cpu (bool): whether to train on the CPU, not on a GPU.
        fp16 (bool): mixed precision, on a GPU.
        threads (int): threads of each process on the CPU.
        train_flags (tuple of str): further flags of fairseq-train.
    """

    folder: str
    data: str
    updates: int
    warmup_updates: int
    validate_every: int
    batch_size: int = 16
    tokens_per_sample: int = 128
    lr: float = 1e-3
    cpu: bool = False
    fp16: bool = False
    threads: int = 1
    train_flags: Tuple[str, ...] = ()

    def path(self, run: Run, *names: str) -> str:
        """A file in the run's folder, or the folder itself."""
        name = f"{run.scheme.folder}-seed{run.seed}"
        return os.path.join(self.folder, run.arch, name, *names)

    @property
    def environment(self) -> Dict[str, str]:
        """The environment variables of each run, whatever device it gets."""
        return {"OMP_NUM_THREADS": str(self.threads)}

    def settings(self) -> Dict[str, Any]:
        """All that numbers depend on and that runs share; a folder of others is refused."""
        kept = {key: value for key, value in vars(self).items() if key not in ("folder", "data")}
        kept["train_flags"] = list(self.train_flags)
        return {"data": fingerprint(self.data), **kept, "versions": versions()}

    @property
    def log_interval(self) -> int:
        """Updates a line of the log: a tenth of a validation interval that such lines tile."""
        tenth = self.validate_every // 10
        return tenth if tenth and self.validate_every % tenth == 0 else self.validate_every

    def common_words(self, arch: str) -> List[str]:
        """The words that all runs of a size share, without --train-flags."""
        words: List[Any] = [fairseq_train(), self.data, "--user-dir", tupe_fairseq.__path__[0]]
        words += ["--arch", arch, "--task", "masked_lm", "--criterion", "masked_lm"]
        words += ["--sample-break-mode", "complete", "--tokens-per-sample", self.tokens_per_sample]
        words += ["--max-positions", self.tokens_per_sample]
        words += ["--skip-invalid-size-inputs-valid-test"]
        words += ["--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", 1e-6]
        words += ["--weight-decay", 0.01, "--clip-norm", 1.0]
        words += ["--lr", repr(self.lr), "--lr-scheduler", "polynomial_decay"]
        words += ["--warmup-updates", self.warmup_updates, "--total-num-update", self.updates]
        words += ["--max-update", self.updates, "--batch-size", self.batch_size]
        words += ["--required-batch-size-multiple", 1, "--distributed-world-size", 1]
        # validations and checkpoints by updates alone, also where epochs are short
        words += ["--validate-interval", _NEVER, "--validate-interval-updates", self.validate_every]
        words += ["--save-interval", _NEVER, "--save-interval-updates", self.validate_every]
        words += ["--keep-interval-updates", 1, "--no-epoch-checkpoints"]
        # no reading ahead: a thread that still reads when the process ends can abort it
        words += ["--num-workers", 0, "--data-buffer-size", 0]
        words += ["--log-format", "json", "--log-interval", self.log_interval]
        words += ["--cpu"] if self.cpu else []
        words += ["--fp16"] if self.fp16 else []
        return [str(word) for word in words]

    def command(self, run: Run) -> List[str]:
        """The words of a run's fairseq-train command; anyone can run it by hand."""
        own = [*run.scheme.words, "--seed", str(run.seed), "--save-dir", self.path(run)]
        return [*self.common_words(run.arch), *self.train_flags, *own]
