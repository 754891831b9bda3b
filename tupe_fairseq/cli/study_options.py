"""Options that tupe-finetune and tupe-compare share."""

import os
from dataclasses import dataclass, fields
from typing import Any

from tupe_fairseq.flags import UserDir, arguments, at_least, comma_list, count, option


@dataclass(kw_only=True)
class StudyOptions(UserDir):
    train_flags: tuple[str, ...] = option(
        "further flags of fairseq-train, as one argument; or give them after --, at the end: "
        "... -- --bf16 --wandb-project P",
        arguments, (),
    )  # fmt: skip
    keep_checkpoints: bool = option("keep the checkpoint that a run is scored by", bool, False)
    dry_run: bool = option("print the commands without running them", bool, False)
    cpu: bool = option("train on the CPU", bool, False, group="machine")
    fp16: bool = option("mixed precision, on GPUs", bool, False, group="machine", not_with=("cpu",))
    gpus: list[int] | None = option(
        "such as 0,1, to run on several, each run on one GPU",
        comma_list(at_least(0)), None, unset="the first", group="machine", not_with=("cpu",),
    )  # fmt: skip
    parallel: int | None = option(
        "runs at a time", count, None, unset="one per GPU", group="machine"
    )

    def devices(self) -> list[str]:
        """Values of CUDA_VISIBLE_DEVICES for the runs; "" is the CPU, also if there is no GPU."""
        if self.cpu or self.dry_run:
            return [""]
        import torch

        num_gpus = torch.cuda.device_count()
        if max(self.gpus or [-1]) >= num_gpus:
            raise ValueError(
                f"--gpus {max(self.gpus or [])}: torch finds {num_gpus} GPUs on this machine, "
                "counted from 0"
            )
        if not num_gpus and self.fp16:
            raise ValueError("--fp16 needs a GPU, and torch finds none on this machine; drop it")
        every = ",".join(map(str, range(num_gpus)))
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", every).split(",")
        return [visible[gpu] for gpu in self.gpus or [0]] if num_gpus else [""]

    def study_settings(self, settings: type, devices: list[str], **others: Any) -> Any:
        """The settings of a study: these options by name, and others."""
        from tupe_fairseq.runs.grid import default_threads

        own = {one.name: getattr(self, one.name, None) for one in fields(settings)}
        own |= {
            "output_dir": os.path.abspath(own["output_dir"]),
            "cpu": self.cpu if self.dry_run else devices == [""],
            "threads": own["threads"] or default_threads(self.parallel or len(devices)),
        }
        return settings(**own | others)
