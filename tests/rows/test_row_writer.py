"""Written rows are read back as they were; a file appears when it is complete."""

import json

import pytest

from tupe_fairseq.rows.open_rows import open_rows
from tupe_fairseq.rows.row_writer import added_columns, writing_rows

TEXTS = ["plain", "", 'a "quoted" one', "comma, semicolon; th\xe9", " spaces "]
HARD = ["tab\there", "line\nfeed", "carriage\rreturn", "\r\n", '"', "\n"]


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl"])
@pytest.mark.parametrize("header", [True, False])
def test_back_and_forth(ending, header, tmp_path):
    path = str(tmp_path / f"a.{ending}")
    texts = TEXTS + (HARD if ending != "tsv" else [])
    with writing_rows(path, ["text", "label"], header) as writer:
        for text in texts:
            writer.write([text, "x"])
    file = open_rows(path, header)
    assert file.columns == (["text", "label"] if header or ending == "jsonl" else ["1", "2"])
    assert [row.values for row in file.rows()] == [[text, "x"] for text in texts]
    assert b"\r\n" not in (tmp_path / f"a.{ending}").read_bytes().replace(b'"\r\n"', b"")


def test_one_column_of_empty_texts(tmp_path):
    with writing_rows(str(tmp_path / "a.csv"), ["a"]) as writer:
        writer.write([""])
    assert [row.values for row in open_rows(str(tmp_path / "a.csv")).rows()] == [[""]]
    with pytest.raises(ValueError, match=".tsv of one column cannot hold an empty text"):
        with writing_rows(str(tmp_path / "a.tsv"), ["a"]) as writer:
            writer.write([""])


def test_columns_after_those_of_the_input(tmp_path):
    (tmp_path / "in.csv").write_text('text,label\n"a,b",1\nc,0\n')
    file = open_rows(str(tmp_path / "in.csv"))
    columns = added_columns(file.columns, ["prediction", "score"])
    for ending in ("csv", "jsonl"):
        with writing_rows(str(tmp_path / f"out.{ending}"), columns) as writer:
            for row in file.rows():
                writer.write([*row.values, "yes", 0.25])
    assert (tmp_path / "out.csv").read_text() == (
        'text,label,prediction,score\n"a,b",1,yes,0.25\nc,0,yes,0.25\n'
    )
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"text": "a,b", "label": "1", "prediction": "yes", "score": 0.25}
    with pytest.raises(ValueError, match="there is a column 'label' already; rename it in the inp"):
        added_columns(file.columns, ["score", "label"])


def test_lists(tmp_path):
    row = [["New", "York"], ["B", "I"]]
    for ending, back in [
        ("tsv", ["New York", "B I"]),
        ("csv", ["New York", "B I"]),
        ("jsonl", row),
    ]:
        path = str(tmp_path / f"a.{ending}")
        with writing_rows(path, ["tokens", "tags"]) as writer:
            writer.write(row)
        assert [found.values for found in open_rows(path).rows()] == [back]
        if ending != "jsonl":
            with pytest.raises(
                ValueError, match="'tokens' has a list with an empty text or one wi"
            ):
                with writing_rows(path, ["tokens"]) as writer:
                    writer.write([["New York"]])


@pytest.mark.parametrize("text", HARD[:4])
def test_what_tsv_cannot_hold(text, tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("before")
    message = "a.tsv: column 'text' has a text with a tab or a line end, which .tsv cannot hold; wr"
    with pytest.raises(ValueError, match=message):
        with writing_rows(str(path), ["text", "label"]) as writer:
            writer.write(["fine", "1"])
            writer.write([text, "1"])
    assert path.read_text() == "before" and len(list(tmp_path.iterdir())) == 1


def test_wrong(tmp_path):
    with pytest.raises(
        ValueError, match="none of the endings that can be written: .tsv, .csv, .js"
    ):
        with writing_rows(str(tmp_path / "a.txt"), ["a"]):
            pass
    with pytest.raises(ValueError, match="there is a column 'a' already"):
        with writing_rows(str(tmp_path / "a.tsv"), ["a", "a"]):
            pass
    with pytest.raises(ValueError, match="a.csv: 2 values for 1 columns"):
        with writing_rows(str(tmp_path / "a.csv"), ["a"]) as writer:
            writer.write(["x", "y"])
    assert not list(tmp_path.iterdir())
