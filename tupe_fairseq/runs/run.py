"""A training of a study: its command, its score, and what it was made with."""

import importlib.util
import json
import logging
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from tupe_fairseq.files import atomic_write, read_json, write_json
from tupe_fairseq.provenance import made_by
from tupe_fairseq.runs.options import StudyOptions, visible
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

_LOGDIR = "--tensorboard-logdir"


class Slot(NamedTuple):
    """What a study gives to a run."""

    device: str  # torch's name
    lock: int | None  # :func:`tupe_fairseq.files.locked`, which its processes inherit
    parallel: int  # how many run at a time
    on_updates: Callable[[int], None]  # to be called with the number of updates made so far


class Run:
    """A training. Its folder has command.sh, train.log and, once it is finished, result.json.

    A subclass for each kind of study says what its command is, and what its score.
    """

    options: StudyOptions
    folder: str
    seed: int
    updates: int

    def changeable_flags(self) -> list[object]:
        """The data, and flags of fairseq-train that --train-flags may change."""
        # no reading ahead: a thread that still reads when the process ends can make it abort
        return ["--num-workers", 0, "--data-buffer-size", 0]

    def fixed_flags(self) -> list[object]:
        """The flags that --train-flags may not change."""
        own = self.options
        return [
            *("--required-batch-size-multiple", 1, "--distributed-world-size", 1),
            *("--no-epoch-checkpoints", "--log-format", "json"),  # the log is parsed
            *("--user-dir", own.user_dir or PACKAGE, "--seed", self.seed),
            *("--save-dir", self.folder, *["--cpu"] * (own.devices == ["cpu"])),
            *["--fp16"] * own.fp16,
        ]

    def unset_flags(self) -> list[str]:
        """Further flags that --train-flags may not change.

        Resuming, measuring or equal conditions depend on their defaults.
        """
        return [
            *("--arch", "--task", "--cpu", "--fp16", "--max-epoch", "--patience", "--stop-min-lr"),
            *("--stop-time-hours", "--finetune-from-model", "--restore-file", "--log-file"),
            *("--reset-dataloader", "--reset-lr-scheduler", "--reset-meters", "--reset-optimizer"),
            *("--no-last-checkpoints", "--no-save", "--no-save-optimizer-state"),
            *("--write-checkpoints-asynchronously", "--model-parallel-size", "--valid-subset"),
            *("--disable-validation", "--max-valid-steps", "--validate-after-updates"),
        ]

    def score(self, device: str) -> dict[str, Any]:
        """The score, once it is trained on this device; raises Diverged if it has none."""
        raise NotImplementedError

    def about(self) -> dict[str, Any]:
        """What result.json has beside the score, also for a diverged run."""
        raise NotImplementedError

    def on_valid(self, record: dict[str, Any]) -> None:
        """Called with fairseq's record of each validation; may raise Diverged."""

    def arguments(self, train_flags: Sequence[str] = ()) -> list[str]:
        """The arguments of fairseq-train."""
        args = [*map(str, [*self.changeable_flags(), *train_flags, *self.fixed_flags()])]
        name = os.path.relpath(self.folder, self.options.output_dir)
        for place, arg in enumerate(args):
            if args[place - 1] == _LOGDIR or arg.startswith(f"{_LOGDIR}="):  # one for each run
                args[place] = os.path.join(arg, name)
        return args

    @cached_property
    def command(self) -> list[str]:
        """fairseq-train and its arguments."""
        return [console_script("fairseq-train"), *self.arguments(self.options.train_flags)]

    def check_train_flags(self) -> None:
        """Refuse --train-flags that change other flags, or that fairseq-train does not know."""
        args = self.arguments()
        before = vars(parse_training(args))
        try:
            after = parse_training([*args, *self.options.train_flags])
        except ValueError as error:
            is_set = {flag for flag in str(error).split() if flag.startswith("--")} & {*args}
            advice = ", which the command sets: --optimizer and --lr-scheduler must take it"
            raise ValueError(f"--train-flags: {error}{advice if is_set else ''}") from error
        for word in [*self.unset_flags(), *map(str, self.fixed_flags())]:
            flag = word.partition("=")[0]
            name = flag[2:].replace("-", "_")
            if before.get(name) != getattr(after, name, None):
                reason = "the command sets it, or depends on its default"
                raise ValueError(f"--train-flags may not set {flag}: {reason}")
        if after.amp and after.cpu:
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
        threads = f"export OMP_NUM_THREADS={self.options.threads}"
        return f"# {self}\n{threads}\n{as_shell(self.command)}\n"

    def train_and_score(self, slot: Slot) -> dict[str, Any]:
        """Train, or resume an interrupted training, and score; writes and returns result.json."""
        own, device = self.options, slot.device
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
        env = {"CUDA_VISIBLE_DEVICES": visible(slot.device)}
        env["OMP_NUM_THREADS"] = str(self.options.threads)
        env["TUPE_STUDY"] = self.folder  # its tasks then copy no vocabulary to it
        train(self.command, path, on_line, lock=slot.lock, env=env)

    def result(self) -> dict[str, Any] | None:
        """The content of result.json; None before the run is finished."""
        path = self.path("result.json")
        return read_json(path) if os.path.exists(path) else None
