"""Files that tupe-compare reads back, after something happened to them; and a full disk."""

import json
import os
import re
import resource

import pytest

from tupe_fairseq.compare import runner
from tupe_fairseq.compare.comparison import Comparison
from tupe_fairseq.compare.finished_runs import finished
from tupe_fairseq.compare.measurement import Measurement

POINT = {
    "updates": 4, "loss": 8.5, "seconds": 2.0, "words_per_second": None, "peak_memory_mib": 90.0,
    "side_by_side": 1,
}  # fmt: skip
CURVE = [{"updates": 4, "loss": 8.5, "seconds": 2.0}, {"updates": 8, "loss": 8.0, "seconds": 4.0}]
RESULT = {
    "arch": "tupe_roberta_tiny", "scheme": "tupe --rel-pos", "seed": 1, "lr": 1e-3,
    "updates": 8, "validate_every": 4, "diverged": None,
    "final_loss": 8.0, "best_loss": 8.0, "best_updates": 8, "seconds": 4.0,
    "words_per_second": 50.0, "peak_memory_mib": 90.0, "side_by_side": 1, "machine": "a machine",
    "parameters": 1000, "position_parameters": 10, "curve": CURVE,
}  # fmt: skip
DEEP = "[" * 100_000


@pytest.fixture
def comparison(tmp_path):
    return Comparison(str(tmp_path), "data", updates=8, warmup_updates=1, validate_every=4)


def with_result(tmp_path, content, name="tupe_rel-pos-seed1"):
    path = tmp_path / "tupe_roberta_tiny" / name / "result.json"
    path.parent.mkdir(parents=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_sound_result(comparison, tmp_path):
    with_result(tmp_path, RESULT)
    assert finished(comparison) == [RESULT]


@pytest.mark.parametrize("content", ["", "[]", '{"tasks": {"CoLA/cls": {"metric": "mcc"}}}'])
def test_what_was_read_out_is_damaged(content, comparison, tmp_path):
    path = with_result(tmp_path, RESULT).parent / "readouts.json"
    path.write_text('{"pairs": null, "tasks": {}}')
    assert finished(comparison)[0]["readouts"] == {"pairs": None, "tasks": {}}
    path.write_text(content)
    with pytest.raises(ValueError, match=f"delete {re.escape(str(path))}, and the run is made"):
        finished(comparison)


def test_a_result_of_an_earlier_version(comparison, tmp_path):
    """Its updates are those of the comparison."""
    new = ("lr", "updates", "validate_every")
    with_result(tmp_path, {key: value for key, value in RESULT.items() if key not in new})
    assert finished(comparison) == [{**RESULT, "lr": None}]


@pytest.mark.parametrize(
    "change, reason",
    [
        ("null", "its content is missing"),
        ("[1]", "not an object"),
        ("3", "not an object"),
        ("", "is not a JSON file"),
        ("\ufffe", "is not a JSON file"),
        (DEEP, "nested too deep"),
        ({"seed": "1"}, "seed is '1', not a whole number"),
        ({"seed": True}, "seed is True"),
        ({"arch": None}, "arch is missing"),
        ({"machine": ["a"]}, "machine is ['a'], not a text"),
        ({"side_by_side": 1.5}, "side_by_side is 1.5"),
        ({"lr": "1e-3"}, "lr is '1e-3'"),
        ({"final_loss": float("nan")}, "final_loss is nan, not a finite number"),
        ({"final_loss": 10**400}, "final_loss is 1000"),
        ({"final_loss": None}, "its curve is not that of a finished run"),
        ({"best_loss": None}, "its curve is not that of a finished run"),
        ({"seconds": None}, "its curve is not that of a finished run"),
        ({"final_loss": 7.5}, "its curve is not that of a finished run"),
        ({"updates": 12}, "its curve is not that of a finished run"),
        ({"validate_every": 2}, "its curve is not that of a finished run"),
        ({"curve": []}, "its curve is not that of a finished run"),
        ({"curve": CURVE[1:]}, "its curve is not that of a finished run"),
        ({"curve": CURVE[:1]}, "its curve is not that of a finished run"),
        ({"curve": [{**CURVE[0], "loss": "8"}]}, "curve[0].loss is '8'"),
        ({"curve": {"4": 8.5}}, "curve is {'4': 8.5}, not a list"),
        ({"scheme": "tupe"}, "is the result of tupe_roberta_tiny, tupe, seed 1, which is not of"),
        ({"scheme": "../x"}, "unknown position encoding '../x'"),
        ({"seed": 2}, "seed 2, which is not of this folder"),
    ],
)
def test_a_damaged_result(change, reason, comparison, tmp_path):
    path = with_result(tmp_path, {**RESULT, **change} if isinstance(change, dict) else change)
    with pytest.raises(ValueError, match=re.escape(reason)) as error:
        finished(comparison)
    assert str(error.value).endswith(f"; delete {path}, and the run is made again")
    assert "\n" not in str(error.value)


def test_a_copied_run_does_not_count_twice(comparison, tmp_path):
    for name in ("tupe_rel-pos-seed1", "tupe_rel-pos-seed1 (copy)"):
        with_result(tmp_path, RESULT, name)
    with pytest.raises(ValueError, match="which is not of this folder"):
        finished(comparison)


@pytest.mark.parametrize(
    "line, reason",
    [
        ("null", "its content is missing"),
        ("[]", "its content is [], not an object"),
        ("5", "its content is 5"),
        ("{", "Expecting property name"),
        (DEEP, "recursion"),
        ("\x00", "Expecting value"),
        ({"updates": "4"}, "updates is '4'"),
        ({"updates": -4}, "updates is -4"),
        ({"loss": None}, "loss is missing"),
        ({"loss": float("inf")}, "loss is inf"),
        ({"seconds": [2]}, "seconds is [2]"),
    ],
)
def test_a_damaged_curve(line, reason, tmp_path):
    path = tmp_path / "curve.jsonl"
    line = json.dumps({**POINT, **line}) if isinstance(line, dict) else line
    path.write_text(json.dumps(POINT) + "\n" + line + "\n")
    with pytest.raises(ValueError, match=re.escape(reason)) as error:
        Measurement(str(path), 8)
    assert str(error.value).endswith(f"; delete {path}, and the run begins afresh")
    assert json.dumps(POINT) in path.read_text()


def test_on_a_full_disk_no_result_appears(comparison, tmp_path, monkeypatch):
    """The table is too large to be written, what results.json holds is not."""
    with_result(tmp_path, RESULT)
    monkeypatch.setattr(runner, "report", lambda results: "x" * 500_000)
    order = [("tupe_roberta_tiny", "tupe --rel-pos")]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match="results.md"):
            runner._write_results(comparison, {"settings": 1}, "tupe --rel-pos", order, [])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == ["tupe_roberta_tiny"]
