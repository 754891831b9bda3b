"""Reading --lrs and --seeds, and counting updates."""

import itertools

import pytest

from tupe_fairseq.finetune.grid import Run, parse_lrs
from tupe_fairseq.finetune.schedule import (
    WARMUP_RATIO,
    batches_per_epoch,
    total_updates,
    warmup_updates,
)
from tupe_fairseq.training.seeds import parse_seeds


def test_names():
    assert parse_lrs("2e-5,0.00003,1e-3") == (2e-5, 3e-5, 1e-3)
    assert parse_seeds("1,20") == (1, 20)
    names = [Run(lr, seed).name for lr in (2e-5, 1e-3, 1.25e-10) for seed in (1, 20)]
    assert names[:3] == ["lr2e-5-seed1", "lr2e-5-seed20", "lr0.001-seed1"]
    assert names[5] == "lr1.25e-10-seed20"


@pytest.mark.parametrize(
    "parse, text, message",
    [
        (parse_lrs, "2e-5,x", "--lrs 2e-5,x: 'x' is not a number above 0"),
        (parse_lrs, "", "'' is not a number above 0"),
        (parse_lrs, "2e-5,", "'' is not a number above 0"),
        (parse_lrs, "0", "'0' is not"),
        (parse_lrs, "-1e-5", "'-1e-5' is not"),
        (parse_lrs, "nan", "'nan' is not"),
        (parse_lrs, "inf", "'inf' is not"),
        (parse_lrs, "2e-5,0.00002", "--lrs 2e-5,0.00002: 0.00002 is listed twice"),
        (parse_seeds, "1,1", "--seeds 1,1: 1 is listed twice"),
        (parse_seeds, "1,2.5", "'2.5' is not a whole number from 1 to 4294967295"),
        (parse_seeds, "0", "'0' is not"),
        (parse_seeds, "4294967296", "is not a whole number"),
    ],
)
def test_bad_grids(parse, text, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        parse(text)


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
