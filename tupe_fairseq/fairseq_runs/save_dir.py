"""The checkpoints that fairseq-train leaves in its --save-dir."""

import glob
import logging
import os

from tupe_fairseq.checkpoint.checkpoint import CheckpointError, read

logger = logging.getLogger(__name__)

BEST, LAST = "checkpoint_best.pt", "checkpoint_last.pt"


def updates_of(path: str) -> int:
    """The updates after which a checkpoint was written."""
    updates = read(path, finite=False).updates
    if updates is None:
        raise CheckpointError(f"{path} does not say after how many updates it was written")
    return updates


def discard_damaged(folder: str) -> None:
    """Start again from scratch if fairseq was interrupted while it wrote its checkpoint."""
    last = os.path.join(folder, LAST)
    if os.path.exists(last):
        try:
            read(last, finite=False)
        except CheckpointError as error:
            logger.warning("%s starts again from scratch: %s", os.path.basename(folder), error)
            remove_checkpoints(folder)


def remove_checkpoints(folder: str, keep: str = "") -> None:
    """Remove all checkpoints but one."""
    for path in glob.glob(os.path.join(glob.escape(folder), "checkpoint*.pt")):
        if os.path.basename(path) != keep:
            os.remove(path)
