"""Minimal pairs: accuracy against a count by hand, and the files that are read."""

import math

import pytest

from helpers.scoring import write_pairs
from tupe_fairseq.scoring.minimal_pairs import PairAccuracy, accuracy_table, pair_files, read_pairs

PAIRS = [("A cat.", "Cat a."), ("No fish.", "No fish no.")]


def test_accuracy_by_hand():
    accuracy = PairAccuracy()
    for file, phenomenon, good, bad in [
        ("b", "island", -1.0, -2.0), ("b", "island", -2.0, -1.0), ("b", "", -3.0, -3.0),
        ("b", "npi", 0.0, -9.0), ("a", "npi", -1.0, -2.0),
    ]:  # fmt: skip
        accuracy.add(file, phenomenon, good, bad)
    found = accuracy.to_dict()
    # a tie is wrong
    assert found["all"] == {
        "pairs": 5, "right": 3, "ties": 1, "accuracy": 0.6,
        "standard_error": pytest.approx(math.sqrt(0.6 * 0.4 / 5)),
    }  # fmt: skip
    assert list(found["files"]) == ["a", "b"]
    assert found["files"]["b"]["standard_error"] == pytest.approx(0.25)
    assert found["phenomena"]["island"]["pairs"] == 2 and found["phenomena"]["npi"]["right"] == 2
    assert found["mean_of_files"] == {"of": 2, "accuracy": 0.75, "standard_error": 0.125}
    table = accuracy_table(found)
    assert "| all pairs | 60.00 | 21.91 | 5 | 1 |" in table
    assert "| mean of files (2) | 75.00 | 12.50 |  |  |" in table


def test_without_phenomena():
    accuracy = PairAccuracy()
    accuracy.add("a", "", 1.0, 0.0)
    found = accuracy.to_dict()
    assert found["phenomena"] == {} and "mean_of_phenomena" not in found
    assert "phenomen" not in accuracy_table(found)


def test_files_and_columns(tmp_path):
    """Files of a folder at any depth; two of one name stay apart."""
    write_pairs(tmp_path / "a" / "x.jsonl", PAIRS, linguistics_term="npi", kind="other")
    write_pairs(tmp_path / "b" / "x.jsonl", PAIRS[:1])
    (tmp_path / "b" / "notes.md").write_text("pairs")
    files = pair_files([str(tmp_path), str(tmp_path / "a" / "x.jsonl")])
    assert list(files) == ["x", str(tmp_path / "b" / "x")]
    found = list(read_pairs(files, "sentence_good", "sentence_bad", None))
    assert [tuple(sentences) for _, sentences, _ in found] == [*PAIRS, PAIRS[0]]
    assert found[1][2] == {"file": "x", "row": 2, "phenomenon": "npi"}
    assert found[2][0] == f"{tmp_path / 'b' / 'x.jsonl'}, line 1" and not found[2][2]["phenomenon"]
    one = {"x": files["x"]}
    (pair,) = read_pairs(one, "sentence_bad", "sentence_good", "kind", per_file=1)
    assert tuple(pair[1]) == PAIRS[0][::-1] and pair[2]["phenomenon"] == "other"


@pytest.mark.parametrize(
    "content, message",
    [
        ("", "x.jsonl has no rows"),
        ('{"sentence_good": "a"\n', "x.jsonl, line 1 is not a JSON object"),
        ("[]\n", "x.jsonl, line 1 is not a JSON object"),
        ('{"sentence_good": "a", "bad": "b"}\n', "has no column 'sentence_bad' .--bad."),
        ('{"sentence_good": "a", "sentence_bad": " "}\n', "line 1 has no text in 'sentence_bad'"),
    ],
)
def test_refused(content, message, tmp_path):
    (tmp_path / "x.jsonl").write_text(content)
    with pytest.raises(ValueError, match=message):
        list(read_pairs(pair_files([str(tmp_path)]), "sentence_good", "sentence_bad", None))
    with pytest.raises(FileNotFoundError, match="--pairs absent does not exist"):
        pair_files(["absent"])
    (tmp_path / "x.md").write_text(content)
    with pytest.raises(ValueError, match="x.md is no .jsonl file"):
        pair_files([str(tmp_path / "x.md")])
