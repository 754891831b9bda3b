"""Means, spreads and the updates to a loss, on curves written by hand."""

import re

import pytest
from scipy import stats

from tupe_fairseq.compare.aggregate import (
    differences,
    spread,
    summarize_schemes,
    updates_to_reach,
)
from tupe_fairseq.compare.report import headline, report
from tupe_fairseq.compare.spread_text import number, perplexity

DATA = {"dict.txt": "d" * 64, "valid.bin": "e" * 64, "train.bin": ["f" * 64]}


def curve(*points):
    return [{"updates": u, "loss": loss, "seconds": u / 10} for u, loss in points]


def result(scheme, seed, *points, diverged=None, side_by_side=1, arch="tupe_roberta_tiny"):
    found = curve(*points)
    return {
        "arch": arch, "scheme": scheme, "seed": seed, "diverged": diverged, "curve": found,
        "updates": 400,
        "final_loss": None if diverged else found[-1]["loss"],
        "best_loss": min((p["loss"] for p in found), default=None),
        "seconds": found[-1]["seconds"] if found else None, "words_per_second": 1000.0 + seed,
        "peak_memory_mib": 500.0, "side_by_side": side_by_side, "machine": "a machine",
        "parameters": 1234567, "position_parameters": 321,
    }  # fmt: skip


BASE = [
    result("learned", 1, (100, 9.0), (200, 8.0), (300, 7.5), (400, 7.0)),
    result("learned", 2, (100, 9.1), (200, 8.2), (300, 7.6), (400, 7.2)),
]


def shown(results, baseline="learned", seconds=0.0):
    settings = {
        "updates": 0 if seconds else 400, "seconds": seconds, "batch_size": 4,
        "tokens_per_sample": 8, "lr": 1e-3, "warmup_updates": 20, "validate_every": 100,
        "train_flags": [], "cpu": True, "fp16": False, "threads": 2, "versions": {"torch": "1"},
        "data": DATA, "readouts": {},
    }  # fmt: skip
    return report(
        {
            "settings": settings, "machines": ["a machine"], "baseline": baseline, "tuning": [],
            "claims": [],
            "summary": summarize_schemes(results, baseline), "runs": results,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    "target, expected",
    [
        (7.25, 350.0),  # half of the way from 7.5 to 7
        (8.9, 110.0),
        (8.0, 200.0),
        (7.0, 400.0),
        (6.99, None),
        (9.0, 100.0),  # at the first validation
        (9.5, 100.0),
    ],
)
def test_updates_to_reach(target, expected):
    assert updates_to_reach(BASE[0]["curve"], target) == pytest.approx(expected)


def test_the_first_time_counts_where_the_loss_rises_again():
    up_and_down = curve((10, 9.0), (20, 7.0), (30, 8.0), (40, 6.0))
    assert updates_to_reach(up_and_down, 7.5) == pytest.approx(17.5)
    assert updates_to_reach(up_and_down, 6.5) == pytest.approx(37.5)
    assert updates_to_reach([], 7.0) is None


def test_spread():
    assert spread([]) is None
    assert spread([3.0]) == {"n": 1, "mean": 3.0, "min": 3.0, "max": 3.0, "margin95": None}
    # standard error 1.5; t for one degree of freedom
    assert spread([1.0, 4.0])["margin95"] == pytest.approx(12.7062 * 1.5, rel=1e-5)
    three = spread([1.0, 2.0, 6.0])
    # mean 3; squares 4 + 1 + 9 over n - 1, over n
    assert three["mean"] == 3
    assert three["margin95"] == pytest.approx(4.302653 * (7 / 3) ** 0.5, rel=1e-6)
    assert spread([2.0, 2.0])["margin95"] == 0


def test_the_interval_is_scipys():
    values = [7.31, 7.22, 7.4, 7.29, 7.25]
    found = spread(values)
    low, high = stats.t.interval(
        0.95, len(values) - 1, loc=sum(values) / len(values), scale=stats.sem(values)
    )
    assert found["mean"] - found["margin95"] == pytest.approx(low, rel=1e-12)
    assert found["mean"] + found["margin95"] == pytest.approx(high, rel=1e-12)


def test_differences_are_of_the_same_seed():
    """Seeds that differ much, and a scheme that is better by much less in each: a paired result."""
    base = [result("learned", seed, (400, 7.0 + seed)) for seed in (1, 2, 3, 4)]
    tupe = [result("tupe", seed, (400, 6.9 + seed + seed / 1000)) for seed in (1, 2, 3)]
    tupe.append(result("tupe", 5, (400, 1.0)))
    tupe.append(result("tupe", 4, diverged="gradients are Nan/Inf"))
    assert differences(tupe, base) == {
        1: pytest.approx(-0.099), 2: pytest.approx(-0.098), 3: pytest.approx(-0.097)
    }  # fmt: skip
    row = summarize_schemes([*base, *tupe], "learned")[1]
    assert row["difference"]["n"] == 3 and row["difference"]["margin95"] < 0.003
    assert row["final_loss"]["n"] == 4 and row["final_loss"]["margin95"] > 1
    assert "| -0.098 ± 0.002 (-0.099 to -0.097), 3 seeds |" in shown([*base, *tupe])


@pytest.mark.parametrize(
    "values, form, text",
    [
        ([], ".3f", "-"),
        ([7.1234], ".3f", "7.123"),
        ([1.0, 4.0], ".1f", "2.5 ± 19.1 (1.0 to 4.0)"),
        ([-1.0, 2.0], "+.1f", "+0.5 ± 19.1 (-1.0 to +2.0)"),
        ([1.0, 2.0, 6.0], "+.2f", "+3.00 ± 6.57 (+1.00 to +6.00)"),
    ],
    ids=["none", "one", "two", "signed", "three"],
)
def test_numbers(values, form, text):
    assert number(spread(values), form) == text
    without = re.sub(" ± [0-9.]+", "", text)
    assert number(spread(values), form, margin=False) == without


def test_perplexity():
    assert perplexity(10) == "1,024.0"
    assert perplexity(5000.0) == "above 2^1000"


def test_each_seed_against_the_baseline_of_its_own():
    """Seed 1 reaches 7.0 at 250, seed 2 reaches 7.2 at 300."""
    tupe = [
        result("tupe", 1, (100, 8.0), (200, 7.5), (300, 6.5), (400, 6.4)),
        result("tupe", 2, (100, 8.0), (200, 7.5), (300, 7.2), (400, 7.0)),
    ]
    base, row = summarize_schemes([*BASE, *tupe], "learned")
    assert row["to_baseline"]["per_seed"] == {1: pytest.approx(250.0), 2: pytest.approx(300.0)}
    assert row["to_baseline"]["fraction"]["mean"] == pytest.approx(275 / 400)
    assert row["difference"]["min"] == pytest.approx(-0.6)
    assert row["difference"]["max"] == pytest.approx(-0.2)
    assert base["to_baseline"]["fraction"]["mean"] == 1
    assert headline(row, "learned") == (
        "`tupe` reaches it after 275 ± 318 (250 to 300) updates, **0.69 ± 0.79 (0.62 to 0.75)** of "
        "the baseline's (2 seeds)."
    )
    text = shown([*BASE, *tupe])
    assert (
        "| tupe | 1, 2 | 6.700 ± 3.812 (6.400 to 7.000) | 104.0 | 6.700 ± 3.812 (6.400 to 7.000) | "
        "-0.400 ± 2.541 (-0.600 to -0.200) | 0.69 ± 0.79 (0.62 to 0.75) |" in text
    )
    assert "| tupe | 1,234,567 | 321 | 400 | 1,002 (1,001 to 1,002) | 500 (500 to 500) | 40" in text
    assert "one seed" not in text and "concurrent" not in text


def test_each_size_against_the_baseline_of_its_own():
    mini = [
        result("learned", 1, (100, 8.0), (400, 5.0), arch="tupe_roberta_mini"),
        result("tupe", 1, (100, 8.0), (400, 4.0), arch="tupe_roberta_mini"),
    ]
    tupe = result("tupe", 1, (100, 8.0), (400, 6.0))
    rows = summarize_schemes([*BASE, tupe, *mini], "learned")
    found = {(row["arch"], row["scheme"]): row["difference"]["mean"] for row in rows}
    assert found == {
        ("tupe_roberta_tiny", "learned"): 0, ("tupe_roberta_tiny", "tupe"): -1,
        ("tupe_roberta_mini", "learned"): 0, ("tupe_roberta_mini", "tupe"): -1,
    }  # fmt: skip
    text = shown([*BASE, tupe, *mini])
    tiny, other = text.index("## `tupe_roberta_tiny`"), text.index("## `tupe_roberta_mini`")
    assert tiny < text.index("| tupe | 1 | 6.000") < other < text.index("| tupe | 1 | 4.000")


def test_schemes_with_updates_of_their_own():
    """The fraction is that of the baseline's updates."""
    tupe = {**result("tupe", 1, (400, 8.0), (800, 6.0)), "updates": 800}
    row = summarize_schemes([*BASE, tupe], "learned")[1]
    assert row["updates"] == 800
    assert row["to_baseline"]["updates"]["mean"] == pytest.approx(600)
    assert row["to_baseline"]["fraction"]["mean"] == pytest.approx(1.5)
    text = shown([*BASE, tupe], seconds=90.0)
    assert "90 seconds of training, each scheme's own number of updates of 4 samples" in text
    assert "| tupe | 1,234,567 | 321 | 800 |" in text
    assert (
        "after 5% of the updates of warm-up, then linear to 0; validation every 5% of the" in text
    )


def test_not_reached_and_reached_by_one():
    tupe = [
        result("tupe", 1, (100, 9.0), (400, 7.1)),
        result("tupe", 2, (100, 9.0), (400, 7.5)),
        result("alibi", 1, (100, 9.0), (400, 6.0)),
        result("alibi", 2, (100, 9.0), (400, 7.3)),
    ]
    _, never, once = summarize_schemes([*BASE, *tupe], "learned")
    assert never["to_baseline"]["updates"] is None and never["to_baseline"]["reached"] == 0
    assert headline(never, "learned") == "`tupe` does not reach it (2 seeds)."
    assert once["to_baseline"]["per_seed"] == {1: pytest.approx(300.0), 2: None}
    assert headline(once, "learned").endswith("with 1 of 2 seeds; not with the others.")
    text = shown([*BASE, *tupe])
    assert "| not reached |" in text and "| 0.75, 1 of 2 |" in text


def test_a_diverged_run_is_shown_and_left_out_of_means():
    tupe = [
        result("tupe", 1, (100, 8.0), (400, 6.5)),
        result("tupe", 2, (100, 8.0), diverged="gradients are Nan/Inf"),
        result("alibi", 1, diverged="gradients are Nan/Inf"),
    ]
    _, half, none = summarize_schemes([*BASE, *tupe], "learned")
    assert half["final_loss"]["n"] == 1 and half["diverged"] == [2]
    assert half["to_baseline"]["reached"] == 1 and half["to_baseline"]["of"] == 2
    assert none["final_loss"] is None and none["to_baseline"]["per_seed"] == {1: None}
    text = shown([*BASE, *tupe])
    assert "| tupe | 1, 2 (diverged: 2) | 6.500 |" in text
    assert "| alibi | 1 (diverged: 1) | diverged | diverged |" in text
    assert "Diverged runs are left out of the means" in text


def test_a_diverged_baseline_sets_no_target():
    results = [
        result("learned", 1, diverged="gradients are Nan/Inf"),
        result("tupe", 1, (100, 8.0), (400, 6.5)),
    ]
    row = summarize_schemes(results, "learned")[1]
    assert row["to_baseline"] is None and row["difference"] is None
    assert "none of its seeds has a finished run of `learned`" in shown(results)


def test_one_seed_makes_no_claim():
    text = shown([BASE[0], result("tupe", 1, (100, 8.0), (400, 6.5), side_by_side=3)])
    assert "A scheme with one seed has no spread: its difference may be chance." in text
    assert "One seed: a single observation, not a result." in text
    assert "±" not in text and " (6.500 to" not in text
    assert "1,001 (3 concurrent)" in text and "while other runs used the machine" in text
