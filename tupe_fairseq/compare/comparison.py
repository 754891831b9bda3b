"""The settings of a comparison, and the command of each run."""

import os
import shlex
from dataclasses import dataclass, replace
from typing import Any

from tupe_fairseq.compare.compared_data import fingerprint
from tupe_fairseq.compare.parse_schemes import Scheme
from tupe_fairseq.compare.provenance import versions
from tupe_fairseq.compare.readouts import Readouts
from tupe_fairseq.fairseq_runs.command import as_shell, fairseq_train, user_dir

_NEVER = 10**9
# of the updates, one of so many is warm-up, is followed by a validation, is one of a tuning run
_WARMUP, _VALIDATIONS, _TUNING = 20, 20, 10
#: settings that folders of earlier versions do not record
NEW_SETTINGS = ("seconds", "tune_lrs", "tune_updates", "readouts")


@dataclass(frozen=True)
class ComparisonRun:
    """One training.

    Args:
        arch (str): an architecture of tupe_roberta.
        scheme (Scheme): the position encoding.
        seed (int): fairseq's.
        note (str): what its label says beyond that.
    """

    arch: str
    scheme: Scheme
    seed: int
    note: str = ""

    @property
    def label(self) -> str:
        note = f", {self.note}" if self.note else ""
        return f"{self.arch}, {self.scheme.label}, seed {self.seed}{note}"


@dataclass(frozen=True)
class Comparison:
    """The settings of a comparison.

    Args:
        folder (str): OUT, absolute.
        data (str): the data folder, absolute; several shards separated by colons.
        updates (int): the updates of each run; 0: each scheme's own, see ``pace.py``.
        warmup_updates (int): the number of them over which the learning rate rises.
        validate_every (int): updates between validations, each of which writes a checkpoint.
        batch_size (int): samples per update.
        tokens_per_sample (int): tokens per sample.
        lr (float or None): the peak learning rate; None: each scheme's own, see ``tuning.py``.
        cpu (bool): whether to train on the CPU, not on a GPU.
        fp16 (bool): mixed precision, on a GPU.
        threads (int): threads of each process on the CPU.
        train_flags (tuple of str): further flags of fairseq-train.
        tune_lrs (tuple of float): the rates of which each scheme takes the best, ascending.
        tune_updates (int): the updates of the runs that decide it.
        seconds (float): the training time of each run; 0 where the number of updates is given.
        readouts (Readouts): what is read out of each trained model.
    """

    folder: str
    data: str
    updates: int
    warmup_updates: int
    validate_every: int
    batch_size: int = 16
    tokens_per_sample: int = 128
    lr: float | None = 1e-3
    cpu: bool = False
    fp16: bool = False
    threads: int = 1
    train_flags: tuple[str, ...] = ()
    tune_lrs: tuple[float, ...] = ()
    tune_updates: int = 0
    seconds: float = 0.0
    readouts: Readouts = Readouts()

    def of_length(self, updates: int) -> "Comparison":
        """These settings with so many updates, and the usual shares of them."""
        return replace(
            self,
            updates=updates,
            warmup_updates=updates // _WARMUP,
            validate_every=max(1, updates // _VALIDATIONS),
            tune_updates=max(1, updates // _TUNING) if self.tune_lrs else 0,
            seconds=0.0,
        )

    def path(self, run: ComparisonRun, *names: str) -> str:
        """A file in the run's folder, or the folder itself."""
        name = f"{run.scheme.folder}-seed{run.seed}"
        return os.path.join(self.folder, run.arch, name, *names)

    def is_finished(self, run: ComparisonRun) -> bool:
        """Whether the run has its result, and what is read out of it."""
        needed = ["result.json", *(["readouts.json"] if self.readouts.names() else [])]
        return all(os.path.exists(self.path(run, name)) for name in needed)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of each run, on any device."""
        return {"OMP_NUM_THREADS": str(self.threads)}

    def settings(self) -> dict[str, Any]:
        """What runs share and results depend on; a folder with other settings is refused."""
        kept = {key: value for key, value in vars(self).items() if key not in ("folder", "data")}
        for name in ("train_flags", "tune_lrs"):
            kept[name] = list(kept[name])
        kept["readouts"] = self.readouts.settings()
        return {"data": fingerprint(self.data), **kept, "versions": versions()}

    def validations(self, done: int) -> list[int]:
        """After how many updates a run that has made ``done`` has been validated."""
        return validations(self.updates, self.validate_every, done)

    @property
    def log_interval(self) -> int:
        """Updates per log line: about a tenth of the validation interval, and a divisor of it."""
        tenth = self.validate_every // 10
        return tenth if tenth and self.validate_every % tenth == 0 else self.validate_every

    def script(self, run: ComparisonRun) -> str:
        """The run's command as a shell script, to be run by hand."""
        lines = [f"# {run.label}"]
        for name, value in self.environment.items():
            lines.append(f"export {name}={shlex.quote(value)}")
        return "\n".join([*lines, as_shell(self.command(run))]) + "\n"

    def common_words(self, arch: str) -> list[str]:
        """The arguments that all runs of an architecture share, without --train-flags."""
        words: list[Any] = [fairseq_train(), self.data, "--user-dir", user_dir()]
        words += ["--arch", arch, "--task", "tupe_masked_lm", "--criterion", "masked_lm"]
        words += ["--sample-break-mode", "complete", "--tokens-per-sample", self.tokens_per_sample]
        words += ["--max-positions", self.tokens_per_sample]
        words += ["--skip-invalid-size-inputs-valid-test"]
        words += ["--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", 1e-6]
        words += ["--weight-decay", 0.01, "--clip-norm", 1.0]
        words += ["--lr", repr(self.lr), "--lr-scheduler", "polynomial_decay"]
        words += ["--warmup-updates", self.warmup_updates, "--total-num-update", self.updates]
        words += ["--max-update", self.updates, "--batch-size", self.batch_size]
        words += ["--required-batch-size-multiple", 1, "--distributed-world-size", 1]
        # validations and checkpoints by updates alone, even if epochs are short
        words += ["--validate-interval", _NEVER, "--validate-interval-updates", self.validate_every]
        words += ["--save-interval", _NEVER, "--save-interval-updates", self.validate_every]
        words += ["--keep-interval-updates", 1, "--no-epoch-checkpoints"]
        # no reading ahead: a thread that still reads when the process ends can abort it
        words += ["--num-workers", 0, "--data-buffer-size", 0]
        words += ["--log-format", "json", "--log-interval", self.log_interval]
        words += ["--cpu"] if self.cpu else []
        words += ["--fp16"] if self.fp16 else []
        return [str(word) for word in words]

    def command(self, run: ComparisonRun) -> list[str]:
        """The arguments of a run's fairseq-train command."""
        own = [*run.scheme.words, "--seed", str(run.seed), "--save-dir", self.path(run)]
        return [*self.common_words(run.arch), *self.train_flags, *own]


def validations(updates: int, every: int, done: int) -> list[int]:
    """After how many of its updates a run that has made ``done`` has been validated."""
    found = list(range(every, done + 1, every))
    return found if done < updates else sorted({*found, updates})
