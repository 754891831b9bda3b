"""A study: trainings in one folder, each with its command, its score and what it was made with."""

import glob
import importlib.util
import json
import logging
import math
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from statistics import median
from typing import Any

from tupe_fairseq.files import atomic_write, output_folder, read_json, write_json
from tupe_fairseq.provenance import made_by
from tupe_fairseq.runs.grid import Slot, run_grid, torch_device
from tupe_fairseq.runs.process import (
    PACKAGE,
    START,
    Diverged,
    as_shell,
    console_script,
    parse_training,
    record_of,
    train,
)

logger = logging.getLogger("tupe-runs")

#: flags of every run that --train-flags may change
CHANGEABLE = (
    # no reading ahead: a thread that still reads when the process ends can make it abort
    *("--num-workers", "0", "--data-buffer-size", "0"),
)
#: flags of every run that --train-flags may not change; the log is parsed
FLAGS = (
    *("--required-batch-size-multiple", "1", "--distributed-world-size", "1"),
    *("--no-epoch-checkpoints", "--log-format", "json"),
)
# further options that --train-flags may not change, because resuming, measuring or equal
# conditions depend on them
_FIXED = """
    arch task seed save_dir disable_validation finetune_from_model log_file max_epoch
    max_valid_steps model_parallel_size no_last_checkpoints no_save no_save_optimizer_state patience
    reset_dataloader reset_lr_scheduler reset_meters reset_optimizer restore_file stop_min_lr
    stop_time_hours user_dir valid_subset validate_after_updates write_checkpoints_asynchronously
    cpu fp16
""".split()
_LOGDIR = "--tensorboard-logdir"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the runs of a study share, named as the flags of its command; paths are absolute."""

    output_dir: str
    train_flags: tuple[str, ...] = ()  # further flags of fairseq-train
    fp16: bool = False  # mixed precision
    cpu: bool = False
    threads: int = 1  # of the CPU, for each run
    user_dir: str | None = None  # with position encodings or kinds of tasks of the user's

    def record(self) -> dict[str, Any]:
        """What is equal in all runs; the machine may be another when a study goes on."""
        of_machine = "output_dir", "cpu", "threads", "user_dir"
        return {name: value for name, value in vars(self).items() if name not in of_machine}


class Run:
    """A training. Its folder has command.sh, train.log and, once it is finished, result.json.

    A subclass for each kind of study says what its command is, and what its score.
    """

    settings: Settings
    folder: str
    seed: int
    updates: int

    def changeable_flags(self) -> Sequence[object]:
        """The data, and further flags of fairseq-train that --train-flags may change."""
        raise NotImplementedError

    def fixed_flags(self) -> Sequence[object]:
        """The flags that --train-flags may not change."""
        raise NotImplementedError

    def score(self, device: str) -> dict[str, Any]:
        """The score, once it is trained; raises Diverged if it has none.

        ``device`` is torch's name for the one that the run was trained on.
        """
        raise NotImplementedError

    def about(self) -> dict[str, Any]:
        """What result.json has beside the score, also for a diverged run."""
        raise NotImplementedError

    def on_valid(self, record: dict[str, Any]) -> None:
        """Called with fairseq's record of each validation; may raise Diverged."""

    @cached_property
    def command(self) -> list[str]:
        """fairseq-train and its arguments."""
        own = self.settings
        args = [*self.changeable_flags(), *CHANGEABLE, *own.train_flags, *self.fixed_flags()]
        args = [*map(str, args), *FLAGS, "--user-dir", own.user_dir or PACKAGE]
        args += ["--seed", str(self.seed), "--save-dir", self.folder]
        for place, arg in enumerate(args):
            if args[place - 1] == _LOGDIR or arg.startswith(f"{_LOGDIR}="):  # one for each run
                args[place] = os.path.join(arg, os.path.relpath(self.folder, own.output_dir))
        return [console_script("fairseq-train"), *args]

    def check_train_flags(self, *others: str) -> None:
        """Refuse --train-flags that change the fixed flags or these others."""
        fixed = [*map(str, self.fixed_flags())]
        args = [*map(str, self.changeable_flags()), *CHANGEABLE, *fixed]
        args += ["--user-dir", self.settings.user_dir or PACKAGE]
        before = vars(parse_training(args))
        try:
            after = parse_training([*args, *self.settings.train_flags])
        except ValueError as error:
            is_set = {flag for flag in str(error).split() if flag.startswith("--")} & {*args}
            advice = ", which the command sets: --optimizer and --lr-scheduler must take it"
            raise ValueError(f"--train-flags: {error}{advice if is_set else ''}") from error
        flags = [f"--{name.replace('_', '-')}" for name in _FIXED]
        for word in [*flags, *FLAGS, *fixed, *others]:
            flag = word.partition("=")[0]
            name = flag[2:].replace("-", "_")
            if before.get(name) != getattr(after, name, None):
                reason = "the command sets it, or depends on its default"
                raise ValueError(f"--train-flags may not set {flag}: {reason}")
        if after.amp and "--cpu" in fixed:
            raise ValueError("--train-flags: --amp has no effect on a CPU; drop it, or give --bf16")
        for flag, value, library in (  # without the library fairseq-train goes on, but logs nothing
            (_LOGDIR, after.tensorboard_logdir, "tensorboard"),
            ("--wandb-project", after.wandb_project, "wandb"),
        ):
            if value and not any(map(importlib.util.find_spec, (library, f"{library}X"))):
                raise ValueError(f"--train-flags: {flag} needs {library}: pip install {library}")

    def path(self, *names: str) -> str:
        """A file in the run's folder, or the folder itself."""
        return os.path.join(self.folder, *names)

    def script(self) -> str:
        """The command as a shell script, to be run by hand."""
        threads = f"export OMP_NUM_THREADS={self.settings.threads}"
        return f"# {self}\n{threads}\n{as_shell(self.command)}\n"

    def make(self, slot: Slot) -> dict[str, Any]:
        """Train, or resume an interrupted training, and score; writes and returns result.json."""
        own, device = self.settings, torch_device(slot.device)
        result: dict[str, Any] = {"diverged": None}
        try:
            self.train(slot)
            result |= self.score(device)
        except Diverged as error:
            logger.warning("%s diverged: %s", self, error)
            result["diverged"] = str(error)
        made = {"fp16": own.fp16, "threads": own.threads, "train_flags": list(own.train_flags)}
        result = {**self.about(), **result, **made_by(device), **made}
        write_json(self.path("result.json"), result)
        slot.on_updates(self.updates)
        return result

    def train(self, slot: Slot) -> None:
        """Raises the exceptions of :func:`tupe_fairseq.runs.process.train`."""

        def on_line(line: str) -> None:
            tag, record = record_of(line)
            if tag == "train_inner":
                slot.on_updates(int(record["num_updates"]))
            elif tag == "valid":
                slot.on_updates(int(record["valid_num_updates"]))
                self.on_valid(record)

        os.makedirs(self.folder, exist_ok=True)
        with atomic_write(self.path("command.sh")) as file:
            file.write(self.script())
        path = self.path("train.log")
        with open(path, "a", encoding="utf-8") as log:
            log.write(f"| {START} | {json.dumps({'parallel': slot.parallel})}\n")
        env = {"CUDA_VISIBLE_DEVICES": slot.device, "OMP_NUM_THREADS": str(self.settings.threads)}
        env["TUPE_STUDY"] = self.folder  # its tasks then copy no vocabulary to it
        train(self.command, path, on_line, lock=slot.lock, env=env)

    def result(self) -> dict[str, Any] | None:
        """The content of result.json; None before the run is finished."""
        path = self.path("result.json")
        return read_json(path) if os.path.exists(path) else None


class Study:
    """Runs in one folder. Finished ones are not repeated; if one fails, the others go on.

    A subclass for each command says which runs there are, and writes their tables.
    """

    folder: str
    runs: Sequence[Run]

    def __init__(self, folder: str, runs: Sequence[Run], keep_checkpoints: bool = False):
        self.folder, self.runs, self.keeps = folder, runs, keep_checkpoints
        self.failed: dict[Run, Exception] = {}

    def record(self) -> dict[str, Any]:
        """What settings.json has: all that results depend on."""
        raise NotImplementedError

    def work(self) -> str:
        """Make the runs by :meth:`make`, and write the results; returns their page."""
        raise NotImplementedError

    def first_runs(self) -> Sequence[Run]:
        """The runs that depend on no others."""
        return self.runs

    def scripts(self) -> str:
        """The commands of the runs that depend on no others; refuses a folder as :meth:`run`."""
        if os.path.isdir(self.folder):
            with self._open():
                pass
        return "\n".join(run.script() for run in self.first_runs())

    def run(self, devices: Sequence[str], parallel: int | None = None) -> str:
        """Make the unfinished runs, see :func:`run_grid`; returns the page of all finished ones."""
        self.device = torch_device(devices[0])
        with self._open() as output:
            write_json(os.path.join(self.folder, "settings.json"), self.record())
            logger.info("GPU: %s", ", ".join(devices) or "none, the runs are on the CPU")
            logger.info("command.sh and train.log of each run: %s/", self.folder)
            self._grid = partial(run_grid, devices=devices, parallel=parallel, lock=output.lock)
            return self.work()

    def make(self, runs: Sequence[Run], on_result: Callable[[Any, dict[str, Any]], None]) -> None:
        """Make the unfinished ones of some runs; ``on_result`` gets each and its result."""
        self.failed |= self._grid(
            runs, lambda run, slot: run.make(slot), updates=runs[0].updates if runs else 1,
            is_finished=lambda run: run.result() is not None, on_result=on_result,
        )  # fmt: skip

    def _open(self):
        return output_folder(self.folder, "settings.json", self.record())


def finished(folder: str, *names: str) -> dict[str, dict[str, Any]]:
    """The result.json of all finished runs below a folder, by the run's folder.

    ``names`` are glob patterns for the folders in between.
    """
    pattern = os.path.join(glob.escape(folder), *names, "result.json")
    return {os.path.dirname(path): read_json(path) for path in sorted(glob.glob(pattern))}


def best_rate(scores: Mapping[Any, Mapping[Hashable, float | None]]) -> Any:
    """The learning rate with the highest median over the seeds, the first if tied.

    ``scores`` has the score of each seed at each rate; None, of a run that diverged, is below all
    others. Rates are compared at the seeds that all have; without such seeds it is one of those
    with the most.
    """
    common = set.intersection(*map(set, scores.values()))
    most = max(map(len, scores.values()))

    def median_of(rate: Any) -> float:
        own = scores[rate]
        return median(-math.inf if own[x] is None else own[x] for x in common or own)

    return max((rate for rate in scores if common or len(scores[rate]) == most), key=median_of)
