"""The settings of a comparison, its data, and the command of each run."""

import os
import shlex
from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

from tupe_fairseq.compare.parse_schemes import Scheme
from tupe_fairseq.compare.provenance import versions
from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.files.names import DICTIONARY
from tupe_fairseq.programs.command import fairseq_train
from tupe_fairseq.shell_text import as_shell, user_dir

_NEVER = 10**9


@dataclass(frozen=True)
class ComparisonRun:
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
        data (str): the data folder, absolute; several shards separated by colons.
        updates (int): the updates of each run.
        warmup_updates (int): the number of them over which the learning rate rises.
        validate_every (int): updates between validations, each of which writes a checkpoint.
        batch_size (int): samples per update.
        tokens_per_sample (int): tokens per sample.
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

    def path(self, run: ComparisonRun, *names: str) -> str:
        """A file in the run's folder, or the folder itself."""
        name = f"{run.scheme.folder}-seed{run.seed}"
        return os.path.join(self.folder, run.arch, name, *names)

    @property
    def environment(self) -> Dict[str, str]:
        """The environment variables of each run, on any device."""
        return {"OMP_NUM_THREADS": str(self.threads)}

    def settings(self) -> Dict[str, Any]:
        """What runs share and results depend on; a folder with other settings is refused."""
        kept = {key: value for key, value in vars(self).items() if key not in ("folder", "data")}
        kept["train_flags"] = list(self.train_flags)
        return {"data": fingerprint(self.data), **kept, "versions": versions()}

    def validations(self, done: int) -> List[int]:
        """After how many updates a run that has made ``done`` has been validated."""
        found = list(range(self.validate_every, done + 1, self.validate_every))
        return found if done < self.updates else sorted({*found, self.updates})

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

    def common_words(self, arch: str) -> List[str]:
        """The arguments that all runs of an architecture share, without --train-flags."""
        words: List[Any] = [fairseq_train(), self.data, "--user-dir", user_dir()]
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

    def command(self, run: ComparisonRun) -> List[str]:
        """The arguments of a run's fairseq-train command."""
        own = [*run.scheme.words, "--seed", str(run.seed), "--save-dir", self.path(run)]
        return [*self.common_words(run.arch), *self.train_flags, *own]


def fingerprint(data: str) -> Dict[str, Any]:
    """What distinguishes these data from others."""
    folders: List[str] = data.split(":")
    return {
        DICTIONARY: file_sha256(os.path.join(folders[0], DICTIONARY)),
        "valid.bin": file_sha256(os.path.join(folders[0], "valid.bin")),
        "train.bin": [file_sha256(os.path.join(folder, "train.bin")) for folder in folders],
    }
