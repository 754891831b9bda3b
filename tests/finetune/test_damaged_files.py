"""Files that tupe-finetune reads back, after something happened to them."""

import io
import json
import os
import re
import struct
import threading

import numpy as np
import pytest
import torch

from helpers.finished_runs import RUN, finished_experiment, run_again
from helpers.glue_data import write_bin, write_data
from tupe_fairseq.files.lock import locked
from tupe_fairseq.finetune.overall import write_overall
from tupe_fairseq.finetune.task_data import read_task_data

DEEP = "[" * 100_000
NAN = float("nan")
NO_OBJECT = [
    ("", "is not a JSON file"), ("null", "its content is missing"), ("[1]", "not an object"),
    ("7", "not an object"), (DEEP, "nested too deep"), ("\udcff", "is not a JSON file"),
]  # fmt: skip


def damage(path, change):
    """Other content; or some of the fields of a JSON file changed, by their place."""
    if isinstance(change, str):
        path.write_bytes(change.encode("utf-8", "surrogateescape"))
        return
    content = json.loads(path.read_text())
    for place, value in change.items():
        *above, last = place.split(".")
        part = content
        for name in above:
            part = part[name]
        part[last] = value
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "change, reason",
    [
        *NO_OBJECT,
        ({"metrics.valid.accuracy": NAN}, "metrics.valid.accuracy is nan, not a finite number"),
        ({"metrics.valid.accuracy": "0.5"}, "metrics.valid.accuracy is '0.5'"),
        ({"metrics.valid": {"mcc": 0.5}}, "metrics.valid.accuracy is missing"),
        ({"metrics": {}}, "metrics.valid is missing"),
        ({"metrics": [0.5]}, "metrics is [0.5], not an object"),
        ({"metrics": None}, "a run has metrics, or else has diverged"),
        ({"diverged": "nan"}, "a run has metrics, or else has diverged"),
        ({"diverged": 1}, "diverged is 1, not a text"),
        ({"seed": "1"}, "seed is '1'"),
        ({"lr": 2e-5}, "lr is 2e-05, not a text"),
        ({"run": "lr3e-5-seed1"}, "is the result of lr3e-5-seed1, not of lr2e-5-seed1"),
        ({"seed": 3}, "is the result of lr2e-5-seed1, not of"),
    ],
)
def test_result_of_a_run(change, reason, tmp_path):
    experiment = finished_experiment(tmp_path, "RTE")
    path = tmp_path / "runs" / "RTE" / RUN.name / "result.json"
    damage(path, change)
    with pytest.raises(ValueError, match=re.escape(reason)) as error:
        run_again(experiment)
    assert str(error.value).endswith(f"; delete {path}, and the run is made again")
    assert not (tmp_path / "runs" / "RTE" / "results.json").exists()


@pytest.mark.parametrize(
    "change, reason",
    [
        *NO_OBJECT,
        ({"score": None}, "score is missing"),
        ({"score": NAN}, "score is nan"),
        ({"best_lr": "1"}, "by_lr lacks 1"),
        ({"by_lr": []}, "by_lr lacks 2e-5"),
        ({"by_lr": {"lr": "2e-5"}}, "by_lr is {'lr': '2e-5'}, not a list"),
        ({"settings": []}, "settings is [], not an object"),
        ({"settings.checkpoint": {}}, "settings.checkpoint.sha256 is missing"),
        ({"baseline_score": "a"}, "baseline_score is 'a'"),
        ({"task": "MNLI"}, "is of the task MNLI"),
    ],
)
def test_results_of_another_task(change, reason, tmp_path):
    run_again(finished_experiment(tmp_path, "RTE"))
    other = finished_experiment(tmp_path, "MNLI")
    path = tmp_path / "runs" / "RTE" / "results.json"
    damage(path, change)
    with pytest.raises(ValueError, match=re.escape(reason)) as error:
        run_again(other)
    assert str(error.value).endswith(
        f"; delete {path}, and tupe-finetune --task RTE writes it again"
    )
    path.unlink()
    run_again(other)


@pytest.mark.parametrize(
    "change, reason",
    [
        *NO_OBJECT,
        ({"task": None}, "task is missing"),
        ({"max_positions": "48"}, "max_positions is '48'"),
        ({"max_positions": -1}, "max_positions is -1"),
        ({"vocabulary": 5}, "vocabulary is 5, not a text"),
        ({"splits": []}, "splits is [], not an object"),
        ({"splits.train": 10}, "splits.train is 10, not an object"),
        ({"splits.train": {}}, "splits.train.rows is missing"),
        ({"splits.train.rows": 1e9}, "splits.train.rows is 1000000000.0, not a whole number"),
        ({"splits.../x": {"rows": 3}}, "splits."),
        ({"splits.valid9": {"rows": 3}}, "lists 'valid9', which is not a split of RTE"),
    ],
)
def test_report_of_the_data(change, reason, tmp_path):
    folder = write_data(tmp_path / "RTE", "RTE")
    if "splits.../x" in change:
        change = {"splits": {"../x": {"rows": 3}}}
        reason = "lists '../x', which is not a split"
    damage(folder / "report.json", change)
    with pytest.raises(ValueError, match=re.escape(reason)) as error:
        read_task_data(str(folder))
    assert str(folder / "report.json") in str(error.value)


def saved(array, allow_pickle=False):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=allow_pickle)
    return file.getvalue()


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        saved(np.array([1, 1]))[:-3],
        saved(np.array([1, 1])),
        saved(np.array([1, -1, 1])),
        saved(np.array([1, 2, 1])),
        saved(np.array([1.0, 1.0, 1.0])),
        saved(np.array([[1, 1, 1]])),
        saved(np.array(["1", "1", "1"])),
        saved(np.array([Evil()] * 3), allow_pickle=True),
        saved(np.array([1, 1, 1])).replace(b"(3,)", b"(9**20,)"),
    ],
    ids=[
        "empty",
        "head",
        "cut",
        "few",
        "negative",
        "class-2",
        "floats",
        "2d",
        "texts",
        "evil",
        "huge",
    ],
)
def test_saved_predictions(content, tmp_path, caplog, monkeypatch):
    """Without the checkpoint they cannot be made again."""
    monkeypatch.chdir(tmp_path)
    experiment = finished_experiment(tmp_path, "RTE")
    (tmp_path / "runs" / "RTE" / RUN.name / "predictions-test.npy").write_bytes(content)
    run_again(experiment)
    assert "predictions-test.npy does not hold predictions for 3 rows of RTE" in caplog.text
    assert f"no submission for test: {RUN.name}/checkpoint_best.pt no longer exists" in caplog.text
    assert not (tmp_path / "runs" / "submission").exists() and not (tmp_path / "evil").exists()


@pytest.mark.parametrize("score", [NAN, float("inf")])
def test_saved_scores_that_are_no_numbers(score, tmp_path, caplog):
    experiment = finished_experiment(tmp_path, "STS-B")
    path = tmp_path / "runs" / "STS-B" / RUN.name / "predictions-test.npy"
    np.save(path, np.array([1.0, score, 2.0]))
    run_again(experiment)
    assert "does not hold predictions for 3 rows of STS-B" in caplog.text


@pytest.mark.parametrize(
    "state, reason",
    [
        (None, "truncated, damaged or not a checkpoint"),
        ({"model": Evil()}, "is refused: it asks for posix.mkdir"),
        ([1], "holds a list, not a checkpoint"),
    ],
)
def test_a_checkpoint_to_predict_with(state, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = finished_experiment(tmp_path, "RTE")
    folder = tmp_path / "runs" / "RTE" / RUN.name
    (folder / "predictions-test.npy").unlink()
    (folder / "checkpoint_best.pt").touch()
    if state is not None:
        torch.save(state, folder / "checkpoint_best.pt")
    with pytest.raises(ValueError, match=reason) as error:
        run_again(experiment)
    assert str(error.value).endswith(f"; delete {folder}, and the run is made again")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"\xff\xfe1\n" * 10, "train.label is not a text in UTF-8"),
        (b"0.1\n" * 9 + b"good\n", "line 10 of .*train.label is 'good', not a score"),
        (b"0.1\n" * 9 + b"nan\n", "line 10 of .*train.label is 'nan', not a score"),
        (b"\n" * 10, "line 1 of .*train.label is '', not a score"),
        (b"", "train has 0 labels for 10 rows"),
        (b"0.1\n" * 11, "train has 11 labels for 10 rows"),
    ],
)
def test_scores_of_the_data(content, reason, tmp_path):
    folder = write_data(tmp_path / "STS-B", "STS-B")
    (folder / "label" / "train.label").write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        read_task_data(str(folder)).targets("train")


HEADER = 26  # bytes, before a length for each sentence


def header(sentences):
    return b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, 4, sentences)


@pytest.mark.parametrize(
    "sizes",
    [[2] * 9 + [-2], [2] * 9 + [2**31 - 1], [2] * 9 + [0], [2] * 8 + [4, 0], [1] * 9 + [11]],
    ids=["negative", "huge", "no-label", "empty", "moved"],
)
def test_lengths_of_binarized_labels(sizes, tmp_path):
    folder = write_data(tmp_path / "RTE", "RTE")
    index = header(10) + np.array(sizes, "<i4").tobytes() + np.arange(0, 80, 8, "<i8").tobytes()
    (folder / "label" / "train.idx").write_bytes(index)
    with pytest.raises(ValueError, match="label/train.idx is damaged, or not that of"):
        read_task_data(str(folder)).targets("train")


@pytest.mark.parametrize(
    "name, content, reason",
    [
        ("train.bin", b"", "train.idx is damaged, or not that of"),
        ("train.bin", b"\x04\x00\x00", "cut short"),
        ("train.idx", b"", "is not in fairseq's mmap format, or cut short"),
        ("train.idx", header(10), "cut short"),
        ("train.idx", header(2**63), "cut short"),
        ("dict.txt", "0 1\n1 1\n".encode("utf-16"), "label/dict.txt is not a text in UTF-8"),
        ("dict.txt", b"", "label/dict.txt lists ; the classes of RTE are"),
    ],
)
def test_other_files_of_binarized_labels(name, content, reason, tmp_path):
    folder = write_data(tmp_path / "RTE", "RTE")
    (folder / "label" / name).write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        read_task_data(str(folder)).targets("train")


@pytest.mark.parametrize(
    "place, form, value, reason",
    [
        (HEADER, "<i", -1, "valid.idx is damaged, or not that of"),
        (HEADER, "<i", 2**31 - 1, "valid.idx is damaged, or not that of"),
        (HEADER + 16, "<q", 2**62, "valid.idx is damaged, or not that of"),
        (17, "<B", 5, "valid.idx is damaged, or not that of|cut short"),
        (None, "<i", -5, "valid.bin has tokens from -5 to .*dict.txt are 0 to 11"),
        (None, "<i", 12, "valid.bin has tokens from 2 to 12.*dict.txt are 0 to 11"),
    ],
)
def test_sentences_of_the_data(place, form, value, reason, tmp_path):
    """Else training ends in them, or they are others."""
    folder = write_data(tmp_path / "RTE", "RTE")
    path = folder / "input1" / ("valid.bin" if place is None else "valid.idx")
    content = bytearray(path.read_bytes())
    struct.pack_into(form, content, place or 0, value)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reason) as error:
        read_task_data(str(folder))
    assert str(error.value).endswith("; prepare the task again")


def test_labels_of_another_split(tmp_path):
    folder = write_data(tmp_path / "RTE", "RTE")
    write_bin(folder / "label" / "valid", [[4, 2]] * 10)
    with pytest.raises(ValueError, match="valid has 10 labels for 4 rows"):
        read_task_data(str(folder)).targets("valid")


def test_two_tasks_that_finish_together(tmp_path):
    """The second one waits for the first, and then writes the results of both."""
    run_again(finished_experiment(tmp_path, "RTE"))
    runs = tmp_path / "runs"
    (runs / "results.json").unlink()
    with locked(str(runs)):
        second = threading.Thread(target=write_overall, args=[str(runs)], daemon=True)
        second.start()
        second.join(0.5)
        assert second.is_alive() and not (runs / "results.json").exists()
    second.join(30)
    assert list(json.loads((runs / "results.json").read_text())["tasks"]) == ["RTE"]
