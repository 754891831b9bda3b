"""One pre-training of a comparison: its fairseq-train command, its curve and its final loss."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from tupe_fairseq.checkpoint.checkpoint import EMBEDDING, LM_HEAD, read
from tupe_fairseq.compare.options import CompareOptions
from tupe_fairseq.compare.schemes import FLAGS, Scheme
from tupe_fairseq.recipe import PRE_TRAINING
from tupe_fairseq.runs.process import LAST, START, Diverged, parse_training, records
from tupe_fairseq.runs.run import Run, Slot

_NEVER = 10**9
_VALIDATIONS = 4  # of a short run


@dataclass(frozen=True)
class PreTraining(Run):
    """A size of the model, a position encoding, a seed and a rate.

    A short run, which tries the rate, has the whole schedule, too.
    """

    options: CompareOptions = field(compare=False, repr=False)
    arch: str
    scheme: Scheme
    seed: int
    lr: float
    is_short: bool = False

    def __str__(self) -> str:
        return f"{self.arch}, {self.scheme.label}, seed {self.seed}, lr {self.lr:g}"

    @property
    def folder(self) -> str:
        group = os.path.join("tuning", f"lr{self.lr!r}") if self.is_short else ""
        name = f"{self.scheme.folder}-seed{self.seed}"
        return os.path.join(self.options.output_dir, group, self.arch, name)

    @property
    def updates(self) -> int:
        return self.options.tune_updates if self.is_short else self.options.updates

    def changeable_flags(self) -> list[object]:
        return [
            *(self.options.data, "--arch", self.arch, "--task", "tupe_masked_lm"),
            *("--sample-break-mode", "complete", "--lr-scheduler", "polynomial_decay"),
            *(*PRE_TRAINING, *super().changeable_flags()),
        ]

    def fixed_flags(self) -> list[object]:
        own, every = self.options, self.options.validate_every
        if self.is_short:
            every = max(1, self.updates // _VALIDATIONS)
        # about ten log lines between validations
        tenth = every // 10
        return [
            *("--criterion", "masked_lm", "--tokens-per-sample", own.tokens_per_sample),
            *("--max-positions", own.tokens_per_sample),
            *("--batch-size", own.batch_size, "--skip-invalid-size-inputs-valid-test"),
            *("--lr", repr(self.lr), "--total-num-update", self.updates),
            *("--max-update", self.updates),
            *("--warmup-updates", own.warmup_updates * self.updates // own.updates),
            # validations and checkpoints by updates alone, even if epochs are short
            *("--validate-interval", _NEVER, "--validate-interval-updates", every),
            *("--save-interval", _NEVER, "--save-interval-updates", every),
            *("--keep-interval-updates", 1),
            *("--log-interval", tenth if tenth and every % tenth == 0 else every),
            *(*self.scheme.words, *super().fixed_flags()),
        ]

    def unset_flags(self) -> list[str]:
        return [*super().unset_flags(), *FLAGS]

    def train(self, slot: Slot) -> None:
        last = self.path(LAST)
        done = read(last)[2] or 0 if os.path.exists(last) else 0
        slot.on_updates(done)
        if done < self.updates:  # else only result.json is missing
            super().train(slot)

    def on_valid(self, record: dict[str, Any]) -> None:
        if not math.isfinite(float(record["valid_loss"])):
            updates = record["valid_num_updates"]
            raise Diverged(f"the validation loss after {updates} updates is not finite")

    def about(self) -> dict[str, Any]:
        last = self.path(LAST)
        return {
            "arch": self.arch,
            "scheme": self.scheme.label,
            "seed": self.seed,
            "lr": self.lr,
            "updates": self.updates,
            "final_loss": None,
            **read_log(self.path("train.log")),
            "parameters": parameters_of(last) if os.path.exists(last) else None,
        }

    def score(self, device: str) -> dict[str, Any]:
        curve = read_log(path := self.path("train.log"))["curve"]
        if not curve or curve[-1]["updates"] != self.updates:
            advice = f"delete {self.folder} to train it again"
            raise ValueError(f"{path} lacks the last validation; {advice}")
        return {"final_loss": curve[-1]["loss"]}


def read_log(path: str) -> dict[str, Any]:
    """The curve and the speed of a run, from fairseq's JSON records.

    fairseq's words per second include the time of a start or a validation just before the interval.
    The speed is the median over the other intervals.
    """
    points: dict[int, float] = {}
    is_first, parallel = True, 1
    speeds: dict[bool, list[float]] = {True: [], False: []}
    for tag, record in records(path):
        if tag == START:
            parallel, is_first = max(parallel, record["parallel"]), True
        elif tag == "train_inner":
            speeds[is_first].append(float(record["wps"]))
            is_first = False
        elif tag == "valid" and math.isfinite(float(record["valid_loss"])):
            updates, is_first = int(record["valid_num_updates"]), True
            points = {number: points[number] for number in points if number < updates}
            points[updates] = float(record["valid_loss"])
    return {
        "curve": [{"updates": n, "loss": loss} for n, loss in points.items()],
        "words_per_second": median(speeds[False] or speeds[True] or [0.0]) or None,
        "parallel": parallel,
    }


def parameters_of(checkpoint: str) -> int:
    """The number of parameters; a tied LM head, saved twice on a GPU, counts once."""
    _, tensors, _ = read(checkpoint)
    embedding, last = tensors[EMBEDDING], tensors[LM_HEAD + "weight"]
    tied = embedding.numel() if last.equal(embedding) else 0
    return sum(tensor.numel() for name, tensor in tensors.items() if "version" not in name) - tied


def check_runs(runs: Sequence[PreTraining]) -> None:
    """Refuse --train-flags by which the runs would differ in more than the scheme.

    And a scheme that cannot be built, or that is the same as another one.
    """
    from tupe_fairseq.encoder import TupeEncoder
    from tupe_fairseq.modules.record import recorded_options
    from tupe_fairseq.options import TupeConfig

    replace(runs[0], scheme=Scheme("learned")).check_train_flags()
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
