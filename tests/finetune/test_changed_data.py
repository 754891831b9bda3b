"""A folder of finished runs is refused as soon as any file of any split is another."""

import json

import pytest

from helpers.finished_runs import finished_experiment, run_again
from helpers.glue_data import write_bin
from tupe_fairseq.files.atomic import write_json

NAMES = [
    ("RTE", "input0/train.bin"), ("RTE", "input1/train.bin"), ("RTE", "label/train.bin"),
    ("RTE", "input0/valid.bin"), ("RTE", "input1/valid.bin"), ("RTE", "label/valid.bin"),
    ("RTE", "input0/test.bin"), ("RTE", "input1/test.bin"), ("RTE", "test.index"),
    ("MNLI", "input0/valid1.bin"), ("MNLI", "label/valid1.bin"), ("MNLI", "input1/test1.bin"),
    ("MNLI", "test1.index"), ("STS-B", "label/train.label"), ("STS-B", "label/valid.label"),
]  # fmt: skip


def change(path):
    """Other words, labels, scores or indices, as many as before."""
    if path.suffix == ".bin":
        old, new = (4, 5) if path.parent.name == "label" else (5, 6)
        content = path.read_bytes()
        path.write_bytes(content.replace(bytes([old, 0, 0, 0]), bytes([new, 0, 0, 0]), 1))
    else:
        old, new = ("0", "7") if path.suffix == ".index" else ("0.0", "0.5")
        content = path.read_bytes()
        path.write_text(path.read_text().replace(old, new, 1))
    assert path.read_bytes() != content


@pytest.mark.parametrize("task, name", NAMES)
def test_every_file_counts(task, name, tmp_path):
    experiment = finished_experiment(tmp_path, task)
    run_again(experiment)
    change(tmp_path / task / name)
    recorded = "train" if name == "input0/train.bin" else name
    with pytest.raises(ValueError, match=f"was made with other settings: {recorded} was"):
        run_again(experiment)


def test_where_the_sentences_end_counts(tmp_path):
    experiment = finished_experiment(tmp_path, "RTE")
    prefix = tmp_path / "RTE" / "input0" / "valid"
    before = prefix.with_suffix(".bin").read_bytes()
    tokens = [int.from_bytes(before[n : n + 4], "little") for n in range(0, len(before), 4)]
    write_bin(prefix, [tokens[:2], tokens[2:6], tokens[6:9], tokens[9:]])
    assert prefix.with_suffix(".bin").read_bytes() == before
    with pytest.raises(ValueError, match="input0/valid.idx was"):
        run_again(experiment)


def test_a_record_of_0_1_is_taken_up_and_completed(tmp_path):
    """It has the hash of train's sentences alone."""
    experiment = finished_experiment(tmp_path, "RTE")
    record = tmp_path / "runs" / "RTE" / "steps.json"
    content = json.loads(record.read_text())
    files = [key for key in content["settings"] if key.startswith(("input", "label", "test"))]
    assert len(files) == 16
    short = {key: value for key, value in content["settings"].items() if key not in files}
    write_json(str(record), {**content, "settings": {**short, "train": "another"}})
    with pytest.raises(ValueError, match="train was 'another'"):
        run_again(experiment)
    write_json(str(record), {**content, "settings": short})
    run_again(experiment)
    assert json.loads(record.read_text()) == content
    change(tmp_path / "RTE" / "label" / "valid.bin")
    with pytest.raises(ValueError, match="label/valid.bin was"):
        run_again(experiment)


def test_a_missing_file_is_named(tmp_path):
    experiment = finished_experiment(tmp_path, "RTE")
    (tmp_path / "RTE" / "label" / "valid.idx").unlink()
    with pytest.raises(FileNotFoundError, match="label/valid.idx is missing; prepare the task"):
        run_again(experiment)
