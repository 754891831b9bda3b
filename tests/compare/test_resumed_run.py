"""How a run of a comparison goes on after its parent was killed, without training."""

import json
from argparse import Namespace

import pytest
import torch

from tupe_fairseq.compare import measured_run
from tupe_fairseq.compare.comparison import Comparison, ComparisonRun
from tupe_fairseq.compare.measured_run import compare_one
from tupe_fairseq.compare.parse_schemes import parse_scheme

RUN = ComparisonRun("tupe_roberta_tiny", parse_scheme("tupe"), 1)


@pytest.fixture
def comparison(tmp_path):
    """10 updates, validated every 4 and at the end."""
    found = Comparison(str(tmp_path), "data", updates=10, warmup_updates=1, validate_every=4)
    (tmp_path / "tupe_roberta_tiny" / "tupe-seed1").mkdir(parents=True)
    return found


def point(updates):
    return {
        "updates": updates, "loss": 9 - updates / 10, "seconds": 0.5 * updates,
        "words_per_second": 50.0, "peak_memory_mib": 90.0, "side_by_side": 1,
    }  # fmt: skip


def leave(comparison, made, curve, **entries):
    """What is there after ``made`` updates, with a curve of these points."""
    state = {"args": Namespace(), "model": {}, "optimizer_history": [{"num_updates": made}]}
    torch.save({**state, **entries}, comparison.path(RUN, "checkpoint_last.pt"))
    with open(comparison.path(RUN, "curve.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(point(updates)) + "\n" for updates in curve)


@pytest.mark.parametrize(
    "made, curve, kept",
    [
        (8, [4, 8], [4, 8]),
        (4, [4, 8], [4]),
        (10, [4, 8, 10], [4, 8, 10]),
        (8, [4], None),
        (8, [8], None),
        (4, [], None),
        (10, [4, 8], None),
        (10, [4, 10], None),
        (8, [4, 6, 8], [4, 6, 8]),
        (6, [4, 6], [4, 6]),
        (6, [4], None),
        (6, [6], None),
        (3, [3, 4], [3]),
    ],
)
def test_a_curve_that_lags_behind_the_checkpoint(made, curve, kept, comparison, caplog):
    """Each validation must be in the curve; otherwise all begins afresh.  A run that was stopped
    was validated there, too."""
    leave(comparison, made, curve)
    done, measured = measured_run._resumed(comparison, RUN, 1)
    assert done == (0 if kept is None else made)
    assert [found["updates"] for found in measured.points] == (kept or [])
    said = "tupe_roberta_tiny, tupe, seed 1: its checkpoint has made"
    assert (said in caplog.text and "begins afresh" in caplog.text) == (kept is None)


def test_killed_before_the_result_was_written(comparison, tmp_path):
    """Nothing is left to train."""
    leave(comparison, 10, [4, 8, 10])
    result = compare_one(comparison, RUN, position_parameters=7)
    assert json.loads((tmp_path / "tupe_roberta_tiny/tupe-seed1/result.json").read_text()) == result
    assert (result["final_loss"], result["seconds"], result["parameters"]) == (8.0, 5.0, None)
    assert [found["updates"] for found in result["curve"]] == [4, 8, 10]


def test_where_it_was_stopped_is_no_point_of_the_result(comparison):
    leave(comparison, 10, [3, 4, 7, 8, 10])
    result = compare_one(comparison, RUN, position_parameters=7)
    assert [found["updates"] for found in result["curve"]] == [4, 8, 10]


@pytest.mark.parametrize(
    "before, hours", [(None, 0.5), (7200, 2.5), ("nothing", 0.5)], ids=["new", "resumed", "older"]
)
def test_fairseq_stops_after_the_seconds_of_this_call(before, hours, comparison, monkeypatch):
    """It counts those of earlier calls, too."""
    if before is not None:
        times = {} if before == "nothing" else {"previous_training_time": before}
        leave(comparison, 4, [4], extra_state=times)
    seen = []
    monkeypatch.setattr(measured_run, "train", lambda command, *_, **__: seen.append(command))
    assert compare_one(comparison, RUN, position_parameters=7, seconds=1800.0) is None
    ((*_, flag, value),) = seen
    assert flag == "--stop-time-hours" and float(value) == hours
