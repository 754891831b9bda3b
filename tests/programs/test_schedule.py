"""Updates and warm-up that a run will make."""

import itertools

from tupe_fairseq.programs.schedule import (
    WARMUP_RATIO,
    batches_per_epoch,
    total_updates,
    warmup_updates,
)


def test_total_updates_against_dealing_out_batches():
    for rows, size, gpus, freq in itertools.product((1, 7, 64, 65), (1, 8), (1, 3), (1, 4)):
        batches = [range(rows)[i : i + size] for i in range(0, rows, size)]
        shares = [batches[gpu::gpus] for gpu in range(gpus)]
        longest = max(shares, key=len)
        updates = [longest[i : i + freq] for i in range(0, len(longest), freq)]
        found = batches_per_epoch(rows, size, gpus)
        assert total_updates(found, 3, update_freq=[freq]) == 3 * len(updates)


def test_warmup_of_cola():
    """8,551 rows in batches of 32, 10 epochs."""
    assert total_updates(batches_per_epoch(8551, 32, 1), 10) == 2680
    assert warmup_updates(WARMUP_RATIO, 2680) == 161
