"""tupe-prepare-pretrain --text-field: the same data from JSON lines and parquet as from text."""

import gzip
import json
import re
import sys

import pyarrow
import pyarrow.parquet
import pytest

from helpers import raw_text
from helpers.hidden import hide
from helpers.running import call_program
from tupe_fairseq.commands.prepare_pretrain import main

DOCUMENTS = raw_text.documents(60)
FLAGS = ["--vocab-size", 100, "--character-coverage", 1]


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """The same documents three times; in parquet, with blank lines within."""
    folder = tmp_path_factory.mktemp("raw")
    raw_text.write(folder / "a.txt", DOCUMENTS)
    rows = [{"title": lines[0], "text": "\n".join(lines)} for lines in DOCUMENTS]
    content = "\n".join(map(json.dumps, rows)).encode()
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(content))
    columns = {"text": ["\n\n".join(lines) for lines in DOCUMENTS], "id": list(range(60))}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "a.parquet")
    return folder


@pytest.fixture(scope="module")
def of_text(raw, tmp_path_factory):
    folder = tmp_path_factory.mktemp("of_text") / "data"
    main([str(w) for w in ["--input", raw / "a.txt", "--output-dir", folder, *FLAGS]])
    return folder


def without_report(folder):
    files = raw_text.contents(folder)
    return files, json.loads(files.pop("report.json"))


@pytest.mark.parametrize("kind, workers", [("jsonl.gz", 2), ("parquet", 1), ("parquet", 2)])
def test_the_same_data(kind, workers, raw, of_text, run, tmp_path):
    process = run(
        "tupe-prepare-pretrain", "--input", raw / f"a.{kind}", "--text-field", "text",
        "--output-dir", tmp_path / "data", "--workers", workers, *FLAGS,
    )  # fmt: skip
    files, report = without_report(tmp_path / "data")
    expected, report_of_text = without_report(of_text)
    assert files == expected and "train.bin" in files
    assert report.pop("rows") == {"read": 60, "no_text": 0}
    assert report["settings"].pop("text_field") == "text"
    assert report_of_text["settings"].pop("text_field") is None
    assert report == report_of_text
    assert "rows: read 60, no_text 0\n" in process.stdout


def test_the_field_is_recorded(raw, tmp_path):
    """A corrected one is taken until the text is clean, and no other afterwards."""

    def prepare(field, *flags):
        words = ["--input", raw / "a.jsonl.gz", "--output-dir", tmp_path / "data", "--workers", 1]
        return call_program(main, [*words, "--text-field", field, *flags])

    code, printed = prepare("title")
    assert code == 2 and "the text is too short for a --vocab-size" in printed
    code, printed = prepare("text")
    assert code == 2 and "text_field was 'title' and is now 'text'; give another f" in printed
    assert prepare("title", *FLAGS)[0] == 0


def test_a_row_that_is_wrong_is_found_late_and_repaired(tmp_path):
    rows = [{"text": line} for line in sum(DOCUMENTS, [])] * 200
    lines = list(map(json.dumps, rows))
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join([*lines, "{}"]))
    assert path.stat().st_size > 2 << 20  # more than is looked at first
    words = ["--input", path, "--text-field", "text", "--output-dir", tmp_path / "data", *FLAGS]
    code, printed = call_program(main, [*words, "--workers", 2])
    assert code == 2 and "Traceback" not in printed
    assert f"a.jsonl, line {len(lines) + 1}: there is no field 'text'" in printed.splitlines()[-1]
    path.write_text("\n".join(lines))
    assert call_program(main, [*words, "--workers", 1])[0] == 0


@pytest.mark.parametrize(
    "flags, message",
    [
        (["a.txt", "--text-field", "text"], "a.txt is plain text, which has no fields; leave --te"),
        (
            ["a.jsonl.gz", "--text-field", "text", "--valid-input", "a.txt"],
            "a.txt is plain text, which has no fields",
        ),
        (["a.jsonl.gz"], "holds JSON objects, .*; name the field of the text: --text-field NAME$"),
        (["a.parquet"], "is a parquet file; name the column of the text: --text-field NAME$"),
        (["a.jsonl.gz", "--text-field", "id"], "line 1: there is no field 'id' .*'title', 'text'$"),
        (["a.parquet", "--text-field", "title"], "has no column 'title' .*the columns are 'text'"),
        (["a.parquet", "--text-field", "id"], "--text-field id is a column of int64, not of text"),
    ],
)  # fmt: skip
def test_refused(flags, message, raw, tmp_path):
    words = [raw / word if word.startswith("a.") else word for word in flags]
    code, printed = call_program(main, ["--input", *words, "--output-dir", tmp_path / "data"])
    assert code == 2 and printed.count("\n") == 1
    assert re.search(message, printed.rstrip()), printed
    assert not (tmp_path / "data").exists()


def test_without_pyarrow(raw, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("tupe_fairseq.text.parquet_")]:
        monkeypatch.delitem(sys.modules, name)
    hide(monkeypatch, "pyarrow")
    words = ["--input", raw / "a.parquet", "--text-field", "text", "--output-dir", tmp_path / "d"]
    with pytest.raises(ModuleNotFoundError, match="pyarrow"):
        main([str(word) for word in words])


def test_a_folder_begun_before_there_were_rows(raw, of_text):
    """It is finished, and is then like any other."""
    before = raw_text.contents(of_text)
    record = json.loads((of_text / "steps.json").read_text())
    del record["settings"]["text_field"], record["finished"]["report"]
    del record["finished"]["clean train 0"]["rows"]
    (of_text / "steps.json").write_text(json.dumps(record))
    words = ["--input", raw / "a.txt", "--output-dir", of_text, *FLAGS]
    code, printed = call_program(main, words)
    assert code == 0, printed
    assert raw_text.contents(of_text) == before
