"""Which learning rate a scheme gets, from results written by hand."""

import json
import os

import pytest

from tupe_fairseq.compare.comparison import Comparison, ComparisonRun
from tupe_fairseq.compare.parse_schemes import parse_scheme
from tupe_fairseq.compare.tuning import read_tuning, tuned, tuning_runs
from tupe_fairseq.compare.tuning_table import tuning_section

TINY = "tupe_roberta_tiny"
RUNS = [
    ComparisonRun(TINY, parse_scheme(label), seed)
    for seed in (5, 6)
    for label in ("learned", "tupe --rel-pos")
]


@pytest.fixture
def comparison(tmp_path):
    return Comparison(
        str(tmp_path), "data", updates=400, warmup_updates=20, validate_every=100, lr=None,
        tune_lrs=(1e-4, 1e-3, 1e-2), tune_updates=40,
    )  # fmt: skip


def write(own, run, loss):
    """A finished run; one that diverged if the loss is None."""
    path = own.path(run, "result.json")
    os.makedirs(os.path.dirname(path))
    curve = [] if loss is None else [
        {"updates": updates, "loss": loss, "seconds": 1.0} for updates in (10, 20, 30, 40)
    ]  # fmt: skip
    result = {
        "arch": run.arch, "scheme": run.scheme.label, "seed": run.seed, "lr": own.lr,
        "updates": own.updates, "validate_every": own.validate_every,
        "diverged": "NaN" if loss is None else None, "final_loss": loss, "best_loss": loss,
        "best_updates": 10, "seconds": 1.0, "words_per_second": 1.0, "peak_memory_mib": 1.0,
        "side_by_side": 1, "machine": "a machine", "parameters": 1, "position_parameters": 1,
        "curve": curve,
    }  # fmt: skip
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file)


def write_all(comparison, losses):
    """Scheme to losses at the three rates."""
    for own, run in tuning_runs([(comparison, run) for run in RUNS]):
        write(own, run, losses[run.scheme.label][comparison.tune_lrs.index(own.lr)])


def taken(comparison):
    return {run.scheme.label: own.lr for own, run in tuned([(comparison, run) for run in RUNS])}


def test_the_short_runs(comparison, tmp_path):
    """One for each scheme and rate, with the first seed, and a schedule of their own."""
    planned = tuning_runs([(comparison, run) for run in RUNS])
    assert [(run.scheme.label, run.seed, own.lr) for own, run in planned] == [
        (label, 5, lr) for label in ("learned", "tupe --rel-pos") for lr in comparison.tune_lrs
    ]
    own, run = planned[-1]
    assert run.label == f"{TINY}, tupe --rel-pos, seed 5, learning rate 0.01"
    command = own.command(run)
    for flag, value in (
        ("--max-update", "40"), ("--total-num-update", "40"), ("--warmup-updates", "2"),
        ("--validate-interval-updates", "10"), ("--lr", "0.01"),
        ("--save-dir", str(tmp_path / "tuning" / "lr0.01" / TINY / "tupe_rel-pos-seed5")),
    ):  # fmt: skip
        assert command[command.index(flag) + 1] == value


def test_the_lowest_loss_wins(comparison):
    losses = {"learned": (8.0, 7.0, 7.5), "tupe --rel-pos": (6.0, 5.5, 5.0)}
    write_all(comparison, losses)
    assert taken(comparison) == {"learned": 1e-3, "tupe --rel-pos": 1e-2}
    assert [row["at_edge"] for row in read_tuning(comparison)] == [False, True]
    planned = tuned([(comparison, run) for run in RUNS])
    assert [run for _, run in planned] == RUNS
    own, run = planned[-1]
    # everything else is as it was
    assert own.path(run) == comparison.path(run) and own.updates == 400


@pytest.mark.parametrize(
    "losses, lr",
    [
        ((None, 8.0, 9.0), 1e-3),
        ((8.0, None, None), 1e-4),
        ((8.0, 7.0, 7.0), 1e-3),
        ((None, None, None), 1e-4),
    ],
    ids=["one diverged", "two diverged", "equal", "all diverged"],
)
def test_a_diverged_run_has_lost(losses, lr, comparison):
    write_all(comparison, {"learned": losses, "tupe --rel-pos": (6.0, 5.0, 7.0)})
    assert taken(comparison) == {"learned": lr, "tupe --rel-pos": 1e-3}


def test_seeds_that_are_added_get_the_same_rate(comparison):
    """The runs with the seed that was the first one decide, even if some of them are left."""
    planned = tuning_runs([(comparison, run) for run in RUNS])
    write(*planned[0], 8.0)
    again = tuning_runs([(comparison, run) for run in RUNS[2:]])
    assert again[:3] == planned[:3]
    # nothing is known of the other scheme
    assert {run.seed for _, run in again[3:]} == {6}
    assert read_tuning(comparison) == []


def test_the_table(comparison):
    write_all(comparison, {"learned": (8.0, 7.0, None), "tupe --rel-pos": (6.0, 5.5, 5.0)})
    text = "\n".join(tuning_section(read_tuning(comparison)))
    assert "| scheme | 0.0001 | 0.001 | 0.01 | taken |" in text
    assert "| learned | 8.000 | 7.000 | diverged | 0.001 |" in text
    assert "| tupe --rel-pos | 6.000 | 5.500 | 5.000 | 0.01 (edge) |" in text
    assert "runs of 40 updates" in text and "**Edge: " in text
    assert "Edge" not in "\n".join(tuning_section(read_tuning(comparison)[:1]))
    assert tuning_section([]) == []
