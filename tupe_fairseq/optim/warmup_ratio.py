"""Polynomial decay over all updates of --max-epoch, with the warm-up given as a share of them."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

# omegaconf 2.0 knows neither `float | None` nor `list[int]`
from typing import List, Optional  # noqa: UP035

from fairseq.optim.lr_scheduler import register_lr_scheduler
from fairseq.optim.lr_scheduler.polynomial_decay_schedule import (
    PolynomialDecayLRSchedule,
    PolynomialDecayLRScheduleConfig,
)
from fairseq.utils import safe_getattr
from omegaconf import II, MISSING, open_dict

from tupe_fairseq.options import flag, option

logger = logging.getLogger(__name__)
# the paper's share of the updates for the warm-up
WARMUP_RATIO = 0.06


def total_updates(
    batches: int | None,
    max_epoch: int,
    max_update: int = 0,
    update_freq: Sequence[int] = (1,),
    skip_remainder_batch: bool = False,
) -> int:
    """The number of updates that fairseq-train makes with these options; 0 is no limit.

    ``batches`` are those of an epoch for one process; they may be None without max_epoch.
    """
    if not max_epoch:
        return max_update
    whole = math.floor if skip_remainder_batch else math.ceil
    per_epoch = [whole(batches / n) for n in update_freq]
    epochs = per_epoch[:max_epoch]
    total = sum(epochs) + (max_epoch - len(epochs)) * per_epoch[-1]
    return min(total, max_update) if max_update else total


def warmup_updates(ratio: float, total: int) -> int:
    """The number of warm-up updates: the share of the total, rounded to the nearest."""
    return math.floor(ratio * total + 0.5)


def record_batches(cfg, batches: int) -> None:
    """Store the number of batches per epoch in the root config, where the scheduler reads it."""
    root = cfg._get_root()
    if root is not cfg:
        with open_dict(root):
            root.batches_per_epoch = batches


@dataclass
class PolynomialDecayRatioConfig(PolynomialDecayLRScheduleConfig):
    warmup_ratio: float = option(
        MISSING,
        "share of all updates for the warm-up, from 0 to below 1; the number of updates is "
        "computed from --max-epoch and the batches of an epoch, or is --max-update if that is less",
    )
    warmup_updates: int = option(0, "not with --warmup-ratio")
    total_num_update: Optional[float] = option(None, "not with --warmup-ratio")
    max_epoch: int = II("optimization.max_epoch")
    max_update: int = II("optimization.max_update")
    update_freq: List[int] = II("optimization.update_freq")  # noqa: UP006
    skip_remainder_batch: bool = II("optimization.skip_remainder_batch")


@register_lr_scheduler("polynomial_decay_ratio", dataclass=PolynomialDecayRatioConfig)
class PolynomialDecayRatioSchedule(PolynomialDecayLRSchedule):
    """fairseq's polynomial_decay; its two lengths are computed when the first epoch begins."""

    def __init__(self, cfg, optimizer):
        if not 0 <= cfg.warmup_ratio < 1:
            raise ValueError(f"--warmup-ratio ({cfg.warmup_ratio}) must be from 0 to below 1")
        for name in ("warmup_updates", "total_num_update"):
            if cfg[name]:
                raise ValueError(
                    f"{flag(name)} ({cfg[name]:g}) and --warmup-ratio both set the schedule; drop "
                    "one"
                )
        if not cfg.max_epoch and not cfg.max_update:
            raise ValueError(
                "--warmup-ratio is a share of the run, whose length is unknown; give --max-epoch"
            )
        cfg.total_num_update = math.inf  # until the first epoch begins
        super().__init__(cfg, optimizer)
        self.batches = None

    def step_begin_epoch(self, epoch):
        cfg, batches = self.cfg, safe_getattr(self.cfg._get_root(), "batches_per_epoch")
        if batches is None and cfg.max_epoch:
            raise ValueError(
                "--warmup-ratio with --max-epoch needs a --task of this package for fine-tuning; "
                "give --max-update alone, or --lr-scheduler polynomial_decay"
            )
        if self.total_num_update == math.inf:
            self.batches = batches
            self.total_num_update = total_updates(
                batches, cfg.max_epoch, cfg.max_update, cfg.update_freq, cfg.skip_remainder_batch
            )
            cfg.warmup_updates = warmup_updates(cfg.warmup_ratio, self.total_num_update)
            logger.info(
                "%s batches per epoch: same as --warmup-updates %d --total-num-update %d",
                batches,
                cfg.warmup_updates,
                self.total_num_update,
            )
        elif batches != self.batches:
            raise ValueError(
                f"an epoch had {self.batches} batches and now has {batches}, so the planned number "
                "of updates is wrong; drop --update-epoch-batch-itr"
            )
        return super().step_begin_epoch(epoch)

    def step_update(self, num_updates):
        if self.total_num_update == math.inf:
            return self.optimizer.get_lr()
        return super().step_update(num_updates)
