"""The number of updates of a run, and the number of warm-up updates."""

import math
from collections.abc import Sequence

# the paper's share of the updates for the warm-up
WARMUP_RATIO = 0.06


def total_updates(
    batches: int | None,
    max_epoch: int,
    max_update: int = 0,
    update_freq: Sequence[int] = (1,),
    skip_remainder_batch: bool = False,
) -> int:
    """The number of updates that fairseq-train makes.

    Args:
        batches: the batches of an epoch for one process; may be None without max_epoch.
        max_epoch: the number of epochs, 0 for no limit.
        max_update: the most updates, 0 for no limit.
        update_freq: batches per update in the first, second, ... epoch; the last is for the rest.
        skip_remainder_batch: whether an epoch skips its last, incomplete update.
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
