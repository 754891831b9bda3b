"""How many updates a scheme has for a number of seconds, from short runs written by hand."""

import json
import os

import pytest

from tupe_fairseq.compare.comparison import Comparison, ComparisonRun
from tupe_fairseq.compare.pace import paced, speed_runs
from tupe_fairseq.compare.parse_schemes import parse_scheme
from tupe_fairseq.compare.tuning import tuning_runs

TINY = "tupe_roberta_tiny"
RUNS = [
    ComparisonRun(TINY, parse_scheme(label), seed) for seed in (5, 6) for label in ("none", "tupe")
]


@pytest.fixture
def comparison(tmp_path):
    return Comparison(
        str(tmp_path), "data", updates=0, warmup_updates=0, validate_every=0, lr=None,
        tune_lrs=(1e-4, 1e-3), seconds=30.0,
    )  # fmt: skip


def write(own, run, seconds, diverged=None):
    """A finished run with these seconds at its three validations."""
    path = own.path(run, "result.json")
    os.makedirs(os.path.dirname(path))
    curve = [{"updates": 20 * n, "loss": 8.0, "seconds": s} for n, s in enumerate(seconds, 1)]
    result = {
        "arch": run.arch, "scheme": run.scheme.label, "seed": run.seed, "lr": own.lr,
        "updates": own.updates, "validate_every": own.validate_every, "diverged": diverged,
        "final_loss": None if diverged else 8.0, "best_loss": 8.0, "best_updates": 20,
        "seconds": seconds[-1], "words_per_second": 1.0, "peak_memory_mib": 1.0, "side_by_side": 1,
        "machine": "a machine", "parameters": 1, "position_parameters": 1, "curve": curve,
    }  # fmt: skip
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file)


def test_the_short_runs(comparison, tmp_path):
    """One for each scheme, with its first seed and the lowest rate, at which none diverges."""
    planned = speed_runs(comparison, RUNS)
    assert [run.label for _, run in planned] == [
        f"{TINY}, none, seed 5, for its speed", f"{TINY}, tupe, seed 5, for its speed",
    ]  # fmt: skip
    own, run = planned[0]
    command = own.command(run)
    for flag, value in (
        ("--max-update", "60"), ("--validate-interval-updates", "20"), ("--lr", "0.0001"),
        ("--save-dir", str(tmp_path / "speed" / TINY / "none-seed5")),
    ):  # fmt: skip
        assert command[command.index(flag) + 1] == value


def test_updates_for_the_seconds(comparison):
    """0.05 and 0.2 seconds an update; the slow first part of a short run does not count."""
    for (own, run), seconds in zip(speed_runs(comparison, RUNS), ([9, 10, 11], [20, 24, 28])):
        write(own, run, seconds)
    planned = paced(comparison, RUNS)
    assert [run for _, run in planned] == RUNS
    assert [own.updates for own, _ in planned] == [600, 150, 600, 150]
    own, run = planned[1]
    # the usual shares, and short runs for rates in proportion
    assert (own.warmup_updates, own.validate_every, own.tune_updates) == (7, 7, 15)
    assert own.path(run) == comparison.path(run)
    assert [short.updates for short, _ in tuning_runs(planned)] == [60, 60, 15, 15]


def test_seeds_that_are_added_are_as_long(comparison):
    for own, run in speed_runs(comparison, RUNS):
        write(own, run, [1, 2, 3])
    assert [run.seed for _, run in speed_runs(comparison, RUNS[2:])] == [5, 5]
    assert [own.updates for own, _ in paced(comparison, RUNS[2:])] == [600, 600]


@pytest.mark.parametrize(
    "seconds, diverged, message",
    [
        ([1, 2, 3], "NaN", f"{TINY}, none diverged in its first updates; lower --lr or --tune-lrs"),
        (
            [1, 2000, 4001], None,
            r"--seconds \(30.0\) is less than an update of tupe_roberta_tiny, none, which ",
        ),
    ],
)  # fmt: skip
def test_no_length(seconds, diverged, message, comparison):
    write(*speed_runs(comparison, RUNS)[0], seconds, diverged)
    with pytest.raises(ValueError, match=message):
        paced(comparison, RUNS)
