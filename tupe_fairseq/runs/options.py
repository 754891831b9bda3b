"""Options that tupe-finetune and tupe-compare share."""

import os
from dataclasses import dataclass
from functools import cached_property

from tupe_fairseq.flags import UserDir, arguments, at_least, comma_list, count, option
from tupe_fairseq.provenance import cores


@dataclass(kw_only=True)
class StudyOptions(UserDir):
    """A subclass has ``output_dir``. What is not of this machine is recorded in settings.json."""

    train_flags: tuple[str, ...] = option(
        "more flags of fairseq-train, as --train-flags='...'; or give them last, after --",
        arguments, (),
    )  # fmt: skip
    keep_checkpoints: bool = option(
        "keep the checkpoint that a run is scored by", bool, False, recorded=False
    )
    dry_run: bool = option("print the commands without running them", bool, False, recorded=False)
    cpu: bool = option("train on the CPU", bool, False, group="machine", recorded=False)
    fp16: bool = option("mixed precision, on GPUs", bool, False, group="machine", not_with=("cpu",))
    gpus: list[int] | None = option(
        "one run on each, such as 0,1",
        comma_list(at_least(0)), None, unset="the first", group="machine", not_with=("cpu",),
        recorded=False,
    )  # fmt: skip
    parallel: int | None = option(
        "runs at a time", count, None, unset="one per GPU", group="machine", recorded=False
    )
    threads: int | None = option(
        "CPU threads of a run",
        count, None, unset="OMP_NUM_THREADS, or the cores divided by --parallel", group="machine",
        recorded=False,
    )  # fmt: skip

    def check(self) -> None:
        self.output_dir = os.path.abspath(self.output_dir)
        self.threads = self.threads or default_threads(self.parallel or len(self.devices))

    @cached_property
    def devices(self) -> list[str]:
        """Torch's names of the devices for the runs; the CPU also if there is no GPU."""
        if self.cpu:
            return ["cpu"]
        import torch

        num_gpus = torch.cuda.device_count()
        if max(self.gpus or [-1]) >= num_gpus:
            raise ValueError(
                f"--gpus {max(self.gpus or [])}: torch finds {num_gpus} GPUs on this machine, "
                "counted from 0"
            )
        if not num_gpus and self.fp16:
            raise ValueError("--fp16 needs a GPU, and torch finds none on this machine; drop it")
        return [f"cuda:{gpu}" for gpu in self.gpus or [0]] if num_gpus else ["cpu"]


def default_threads(parallel: int) -> int:
    """CPU threads for each of several runs: OMP_NUM_THREADS, or an equal share of the cores.

    More threads would wait for each other and take the cores from other runs.
    """
    own = os.environ.get("OMP_NUM_THREADS", "")
    return int(own) if own.isdigit() and int(own) else max(1, cores() // parallel)


def visible(device: str) -> str:
    """The CUDA_VISIBLE_DEVICES of a process that sees only this device.

    For the CPU it is empty: beside a GPU that torch sees, fairseq's --cpu fails when it clips
    gradients.
    """
    if device == "cpu":
        return ""
    number, own = device.removeprefix("cuda:"), os.environ.get("CUDA_VISIBLE_DEVICES")
    return own.split(",")[int(number)] if own else number
