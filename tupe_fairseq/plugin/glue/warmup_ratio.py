"""Polynomial decay over all updates of --max-epoch, with the warm-up given as a share of them."""

import logging
import math
from dataclasses import dataclass, field
from typing import List, Optional

from fairseq.optim.lr_scheduler import register_lr_scheduler
from fairseq.optim.lr_scheduler.polynomial_decay_schedule import (
    PolynomialDecayLRSchedule,
    PolynomialDecayLRScheduleConfig,
)
from fairseq.utils import safe_getattr
from omegaconf import II, MISSING, open_dict

from tupe_fairseq.programs.schedule import total_updates, warmup_updates

logger = logging.getLogger(__name__)


def record_batches(cfg, batches: int) -> None:
    """Write into the run's whole config how many batches an epoch has, for the scheduler.

    fairseq passes the scheduler only its config; the task's config has the same root.

    Args:
        cfg (DictConfig): the task's config.
        batches (int): the batches of an epoch for one worker.
    """
    root = cfg._get_root()
    if root is not cfg:  # a task set up on its own has no run
        with open_dict(root):
            root.batches_per_epoch = batches


@dataclass
class PolynomialDecayRatioConfig(PolynomialDecayLRScheduleConfig):
    warmup_ratio: float = field(
        default=MISSING,
        metadata={
            "help": "share of all updates for the warm-up, from 0 to below 1; the number "
            "of updates is computed from --max-epoch and the real number of batches, or is "
            "--max-update if that is less or given alone"
        },
    )
    # refused: both are computed from the ratio
    warmup_updates: int = field(default=0, metadata={"help": "not with --warmup-ratio"})
    total_num_update: Optional[float] = field(
        default=None, metadata={"help": "not with --warmup-ratio"}
    )
    max_epoch: int = II("optimization.max_epoch")
    max_update: int = II("optimization.max_update")
    update_freq: List[int] = II("optimization.update_freq")
    skip_remainder_batch: bool = II("optimization.skip_remainder_batch")


@register_lr_scheduler("polynomial_decay_ratio", dataclass=PolynomialDecayRatioConfig)
class PolynomialDecayRatioSchedule(PolynomialDecayLRSchedule):
    """fairseq's polynomial_decay with its two lengths computed when the first epoch begins.

    Args:
        cfg (PolynomialDecayRatioConfig): the options.
        optimizer (FairseqOptimizer): the optimizer whose learning rate is set.
    Raises:
        ValueError: if the ratio is not in [0, 1).
        ValueError: if ``--warmup-updates`` or ``--total-num-update`` was also given.
        ValueError: if neither ``--max-epoch`` nor ``--max-update`` was given.
    """

    def __init__(self, cfg, optimizer):
        if not 0 <= cfg.warmup_ratio < 1:
            raise ValueError(f"--warmup-ratio is {cfg.warmup_ratio}; it must be from 0 to below 1")
        for name in ("warmup_updates", "total_num_update"):
            if cfg[name]:
                raise ValueError(
                    f"--{name.replace('_', '-')} ({cfg[name]:g}) and --warmup-ratio "
                    f"({cfg.warmup_ratio}) both set the schedule; drop the first, or drop "
                    "--warmup-ratio and use --lr-scheduler polynomial_decay"
                )
        if not cfg.max_epoch and not cfg.max_update:
            raise ValueError(
                "--warmup-ratio is a share of the run, whose length is unknown; give --max-epoch"
            )
        cfg.total_num_update = math.inf  # not known yet
        super().__init__(cfg, optimizer)
        self.batches = None

    def step_begin_epoch(self, epoch):
        """As polynomial_decay's; the first epoch sets the number of updates.

        Raises:
            ValueError: if the task does not provide the number of batches,
                or it has changed since the first epoch.
        """
        batches = safe_getattr(self.cfg._get_root(), "batches_per_epoch")
        if batches is None and self.cfg.max_epoch:
            raise ValueError(
                "--warmup-ratio with --max-epoch needs --task glue_sentence_prediction or "
                "token_tagging: no other task provides the number of batches; give --max-update "
                "without --max-epoch, or --lr-scheduler polynomial_decay with "
                "--warmup-updates and --total-num-update"
            )
        if self.total_num_update == math.inf:
            self._set_length(batches)
        elif batches != self.batches:
            raise ValueError(
                f"an epoch had {self.batches} batches and now has {batches}, which changes the "
                "number of updates that the learning rate was planned for; drop "
                "--update-epoch-batch-itr"
            )
        return super().step_begin_epoch(epoch)

    def _set_length(self, batches):
        cfg, self.batches = self.cfg, batches
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

    def step_update(self, num_updates):
        """As polynomial_decay's; nothing before the first epoch begins."""
        if self.total_num_update == math.inf:
            return self.optimizer.get_lr()
        return super().step_update(num_updates)
