"""A run of a study: one training in its own folder."""

import functools
import glob
import importlib.util
import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from tupe_fairseq.files import atomic_write, read_json, write_json
from tupe_fairseq.runs.grid import Slot
from tupe_fairseq.runs.process import (
    PACKAGE,
    START,
    as_shell,
    console_script,
    parse_training,
    record_of,
    train,
)

#: flags of every run that --train-flags may change
CHANGEABLE = (
    *("--optimizer", "adam", "--adam-eps", "1e-6", "--weight-decay", "0.01", "--clip-norm", "1.0"),
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


class Run:
    """A run: its folder has command.sh, train.log and, once it is finished, result.json.

    A subclass for each kind of study gives its name, its folder and its flags.
    """

    folder: str
    seed: int
    threads: int  # of the CPU
    user_dir: str | None  # with position encodings of the user's
    train_flags: Sequence[str]

    def changeable_flags(self) -> Sequence[object]:
        """The data, and further flags of fairseq-train that --train-flags may change."""
        raise NotImplementedError

    def fixed_flags(self) -> Sequence[object]:
        """The flags that --train-flags may not change."""
        raise NotImplementedError

    @functools.cached_property
    def command(self) -> list[str]:
        """fairseq-train and its arguments."""
        args = [*self.changeable_flags(), *CHANGEABLE, *self.train_flags, *self.fixed_flags()]
        args = [*map(str, args), *FLAGS, "--user-dir", self.user_dir or PACKAGE]
        args += ["--seed", str(self.seed), "--save-dir", self.folder]
        for place, arg in enumerate(args):
            if args[place - 1] == _LOGDIR or arg.startswith(f"{_LOGDIR}="):  # one for each run
                names = self.folder.split(os.sep)
                is_fold, is_short = re.fullmatch(r"fold\d+", names[-2]), names[-4] == "tuning"
                args[place] = os.path.join(arg, *names[-4 if is_short else -3 if is_fold else -2 :])
        return [console_script("fairseq-train"), *args]

    def check_train_flags(self, *others: str) -> None:
        """Refuse --train-flags that change the fixed flags or these others."""
        fixed = [*map(str, self.fixed_flags())]
        args = [*map(str, self.changeable_flags()), *CHANGEABLE, *fixed]
        args += ["--user-dir", self.user_dir or PACKAGE]
        before = vars(parse_training(args))
        try:
            after = parse_training([*args, *self.train_flags])
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
        return f"# {self}\nexport OMP_NUM_THREADS={self.threads}\n{as_shell(self.command)}\n"

    def train(
        self, slot: Slot, on_valid: Callable[[dict[str, Any]], None] = lambda record: None
    ) -> None:
        """Train, or resume an interrupted training; ``on_valid`` gets the record of a validation.

        Raises the exceptions of :func:`tupe_fairseq.runs.process.train`.
        """

        def on_line(line: str) -> None:
            tag, record = record_of(line)
            if tag == "train_inner":
                slot.on_updates(int(record["num_updates"]))
            elif tag == "valid":
                slot.on_updates(int(record["valid_num_updates"]))
                on_valid(record)

        os.makedirs(self.folder, exist_ok=True)
        with atomic_write(self.path("command.sh")) as file:
            file.write(self.script())
        path = self.path("train.log")
        with open(path, "a", encoding="utf-8") as log:
            log.write(f"| {START} | {json.dumps({'parallel': slot.parallel})}\n")
        train(self.command, path, on_line, lock=slot.lock, env=self.env(slot))

    def env(self, slot: Slot) -> dict[str, str]:
        """Environment variables for its processes."""
        return {"CUDA_VISIBLE_DEVICES": slot.device, "OMP_NUM_THREADS": str(self.threads)}

    def result(self) -> dict[str, Any] | None:
        """The content of result.json; None before the run is finished."""
        path = self.path("result.json")
        return read_json(path) if os.path.exists(path) else None

    def save(self, result: dict[str, Any]) -> None:
        write_json(self.path("result.json"), result)


def finished(folder: str, *names: str) -> dict[str, dict[str, Any]]:
    """The result.json of all finished runs below a folder, by the run's folder.

    ``names`` are glob patterns for the folders in between.
    """
    pattern = os.path.join(glob.escape(folder), *names, "result.json")
    return {os.path.dirname(path): read_json(path) for path in sorted(glob.glob(pattern))}
