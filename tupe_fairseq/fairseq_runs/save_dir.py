"""The checkpoints that fairseq-train leaves in its --save-dir."""

import glob
import logging
import os

from tupe_fairseq.checkpoint.contents import updates_in
from tupe_fairseq.checkpoint.restricted_load import CheckpointError, restricted_load

logger = logging.getLogger(__name__)

BEST, LAST = "checkpoint_best.pt", "checkpoint_last.pt"


def updates_of(path: str) -> int:
    """The updates after which a checkpoint was written."""
    return updates_in(restricted_load(path), path)


def training_hours_of(path: str) -> float:
    """What --stop-time-hours counts as passed when training goes on from a checkpoint."""
    extra = restricted_load(path).get("extra_state")
    seconds = extra.get("previous_training_time") if isinstance(extra, dict) else None
    return seconds / 3600 if isinstance(seconds, (int, float)) else 0.0


def discard_damaged(folder: str) -> None:
    """Start again from scratch if fairseq was interrupted while it wrote its checkpoint."""
    last = os.path.join(folder, LAST)
    if os.path.exists(last):
        try:
            restricted_load(last)
        except CheckpointError as error:
            logger.warning("%s starts again from scratch: %s", os.path.basename(folder), error)
            remove_checkpoints(folder)


def remove_checkpoints(folder: str, keep: str = "") -> None:
    """Remove all checkpoints but one."""
    for path in glob.glob(os.path.join(glob.escape(folder), "checkpoint*.pt")):
        if os.path.basename(path) != keep:
            os.remove(path)
