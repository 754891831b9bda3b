"""tupe-score --lengths: one text in samples of several lengths."""

import json
import os
import re

import pytest

from helpers.exporting import MAX_POSITIONS, write_model, write_vocabulary
from helpers.scoring import score


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lengths")
    data = write_vocabulary(folder / "data")
    path = write_model(folder / "model", data, rel_pos=True)
    text = "The cat sat on the mat.\nNo fish.\n\nIs it so?\nA dog saw the cat.\n"
    (folder / "text.txt").write_text(text * 10)
    return [path, "--data", data, "--input", folder / "text.txt"]


def test_results_and_table(model, tmp_path):
    code, text = score(*model, "--lengths", "24,6,12", "--results", tmp_path / "out")
    assert code == 0, text
    assert set(os.listdir(tmp_path / "out")) == {
        "results.json", "results.md",
    }  # fmt: skip
    found = json.loads((tmp_path / "out" / "results.json").read_text())["lengths"]
    assert [one["length"] for one in found] == [6, 12, 24]
    assert len({one["pieces"] for one in found}) == 1
    assert [len(one["by_position"]) for one in found] == [1, 2, 4]
    for one in found:
        bins = [b for b in one["by_position"] if b["pieces"]]
        total = sum(b["pieces"] * b["loss"] for b in bins)
        assert total / one["pieces"] == pytest.approx(one["loss"])
        assert f"| {one['length']} | {one['loss']:.4f} |" in text
    assert text.count("| 24 |") == 1
    assert "| 24 |" in (tmp_path / "out" / "results.md").read_text()


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--lengths", "12,25"], f"25 is more than .* takes, {MAX_POSITIONS}; .* tupe-extend"),
        (["--lengths", "12", "--cut"], "--cut has no effect with --lengths"),
    ],
)  # fmt: skip
def test_what_is_refused(flags, words, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, text = score(*model, *flags, "--results", "out")
    assert code == 2
    assert re.search(words, text.splitlines()[-1]), text
    assert not os.listdir(tmp_path)


def test_a_text_that_is_shorter_than_a_sample_is_refused(model, tmp_path):
    (tmp_path / "short.txt").write_text("No fish.\n")
    code, text = score(*model[:3], "--input", tmp_path / "short.txt", "--lengths", "6,24")
    assert code == 2 and "fewer than a sample of --lengths 24" in text.splitlines()[-1]
