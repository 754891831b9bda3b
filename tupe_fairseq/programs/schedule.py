"""The number of updates of a run, and the number of warm-up updates."""

import math

# the paper's share of the updates for the warm-up
WARMUP_RATIO = 0.06


def batches_per_epoch(rows: int, batch_size: int, gpus: int) -> int:
    """The batches of an epoch for each GPU.

    Args:
        rows (int): rows of the training set, 1 or more.
        batch_size (int): rows per batch; the last batch may be smaller.
        gpus (int): processes that share the batches; 1 on a CPU.
    """
    return math.ceil(math.ceil(rows / batch_size) / gpus)


def total_updates(
    batches: int | None,
    max_epoch: int,
    max_update: int = 0,
    update_freq: list[int] = (1,),
    skip_remainder_batch: bool = False,
) -> int:
    """The number of updates that a run of fairseq-train makes.

    Args:
        batches (int): the batches of an epoch for one worker; may be None without max_epoch.
        max_epoch (int): the number of epochs, 0 for no limit.
        max_update (int): the most updates, 0 for no limit.
        update_freq (list of int): batches per update in the first, second, ... epoch; the last
            entry is for all further ones.
        skip_remainder_batch (bool): whether an epoch skips its last, incomplete update.
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
