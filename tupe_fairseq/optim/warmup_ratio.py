"""Polynomial decay over all updates of --max-epoch, with the warm-up given as a share of them."""

import logging
import math
from dataclasses import dataclass, field

# omegaconf 2.0 knows neither `float | None` nor `list[int]`
from typing import List, Optional  # noqa: UP035

from fairseq.optim.lr_scheduler import register_lr_scheduler
from fairseq.optim.lr_scheduler.polynomial_decay_schedule import (
    PolynomialDecayLRSchedule,
    PolynomialDecayLRScheduleConfig,
)
from fairseq.utils import safe_getattr
from omegaconf import II, MISSING, open_dict

from tupe_fairseq.optim.schedule import total_updates, warmup_updates

logger = logging.getLogger(__name__)


def record_batches(cfg, batches: int) -> None:
    """Write the batches of an epoch into the root of a task's config, where the scheduler looks."""
    root = cfg._get_root()
    if root is not cfg:
        with open_dict(root):
            root.batches_per_epoch = batches


@dataclass
class PolynomialDecayRatioConfig(PolynomialDecayLRScheduleConfig):
    warmup_ratio: float = field(
        default=MISSING,
        metadata={
            "help": "share of all updates for the warm-up, from 0 to below 1; the number of "
            "updates is computed from --max-epoch and the batches of an epoch, or is --max-update "
            "if that is less"
        },
    )
    warmup_updates: int = field(default=0, metadata={"help": "not with --warmup-ratio"})
    total_num_update: Optional[float] = field(
        default=None, metadata={"help": "not with --warmup-ratio"}
    )
    max_epoch: int = II("optimization.max_epoch")
    max_update: int = II("optimization.max_update")
    update_freq: List[int] = II("optimization.update_freq")  # noqa: UP006
    skip_remainder_batch: bool = II("optimization.skip_remainder_batch")


@register_lr_scheduler("polynomial_decay_ratio", dataclass=PolynomialDecayRatioConfig)
class PolynomialDecayRatioSchedule(PolynomialDecayLRSchedule):
    """fairseq's polynomial_decay whose two lengths are computed when the first epoch begins."""

    def __init__(self, cfg, optimizer):
        if not 0 <= cfg.warmup_ratio < 1:
            raise ValueError(f"--warmup-ratio ({cfg.warmup_ratio}) must be from 0 to below 1")
        for name in ("warmup_updates", "total_num_update"):
            if cfg[name]:
                flag = name.replace("_", "-")
                raise ValueError(
                    f"--{flag} ({cfg[name]:g}) and --warmup-ratio both set the schedule; drop one"
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
                "--warmup-ratio with --max-epoch needs --task glue_sentence_prediction or "
                "token_tagging; give --max-update alone, or --lr-scheduler polynomial_decay"
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
