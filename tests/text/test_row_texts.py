"""Reading documents that are a field of JSON lines or a column of a parquet file."""

import gzip
import json
import sys

import pyarrow
import pyarrow.parquet
import pytest

from helpers.hidden import hide
from tupe_fairseq.text import json_texts, parquet_file, parquet_texts, reading
from tupe_fairseq.text.cleaning import Cleaner, clean_file
from tupe_fairseq.text.row_texts import check_texts, open_texts
from tupe_fairseq.text.treatment import AsItIs, TextTreatment

TEXTS = ["one\ntwo", "", "thr\u00e9e\n\n \nfour\n", "\n", "\u200b", "five"]
DOCUMENTS = "one\ntwo\n\nthr\u00e9e\nfour\n\nfive\n"


class Bar:
    n = 0

    def update(self, step):
        self.n += step


def json_lines(texts=TEXTS, name="text"):
    return "".join(json.dumps({"id": 7, name: text}) + "\n" for text in texts).encode()


def write_parquet(path, texts=TEXTS, name="text", **columns):
    table = pyarrow.table({"id": list(range(len(texts))), name: texts, **columns})
    pyarrow.parquet.write_table(table, path, row_group_size=4)
    return path


def write(folder, kind, texts=TEXTS):
    path = folder / f"a.{kind}"
    if kind == "parquet":
        return write_parquet(path, texts)
    content = json_lines(texts)
    path.write_bytes(gzip.compress(content) if kind.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", ["jsonl", "json.gz", "parquet"])
def test_a_row_is_a_document(kind, workers, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 30)
    monkeypatch.setattr(parquet_file, "_MOST_ROWS", 2)
    monkeypatch.setattr(parquet_texts, "_BLOCK_CHARACTERS", 9)
    path = write(tmp_path, kind)
    bar, prefix = Bar(), str(tmp_path / "clean")
    counts = clean_file(str(path), Cleaner(TextTreatment()), prefix, workers, bar, "text")
    assert (tmp_path / "clean.txt").read_text("utf-8") == DOCUMENTS
    assert (counts["rows"], counts["documents"], counts["read"]) == (6, 3, 5)
    assert bar.n == path.stat().st_size
    check_texts(str(path), "text")


def test_a_line_that_is_not_utf8_is_counted(tmp_path):
    lines = json_lines(["one", "two"]).split(b"\n")
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([lines[0], b'{"text": "\xff"}', b"", lines[1]]))
    prefix = str(tmp_path / "clean")
    cleaner = Cleaner(TextTreatment())
    counts = clean_file(str(tmp_path / "a.jsonl"), cleaner, prefix, 1, Bar(), "text")
    assert (tmp_path / "clean.txt").read_text() == "one\n\ntwo\n"
    assert (counts["rows"], counts["read"], counts["invalid_utf8"]) == (3, 3, 1)


@pytest.mark.parametrize("treatment", [TextTreatment(), AsItIs()], ids=["treated", "as-it-is"])
def test_escapes(treatment, tmp_path):
    """Half a character is left out, with any treatment; a byte order mark may begin the file."""
    text = r'{"text": "a\ud83d\ude00 \ud83d b\r\n\tc \u00e9"}'
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf" + text.encode())
    source = open_texts(str(tmp_path / "a"), "text")
    (block,) = source.blocks()
    texts, _ = source.texts(block)
    assert texts == ["a\U0001f600  b\r\n\tc \u00e9"]
    lines = Cleaner(treatment).documents(texts).lines.content.decode().split("\n")
    assert [" ".join(line.split()) for line in lines[:2]] == ["a\U0001f600 b", "c \u00e9"]


WRONG_LINES = {
    '{"txt": "one"}': "line 2: there is no field 'text' (--text-field); the fields are 'txt'",
    "{}": "line 2: there is no field 'text' (--text-field); the fields are none",
    '{"text": null}': "line 2: --text-field text is null, not a text",
    '{"text": 7}': "line 2: --text-field text is a number, not a text",
    '{"text": true}': "line 2: --text-field text is true or false, not a text",
    '{"text": ["one"]}': "line 2: --text-field text is a list, not a text",
    '{"text": {}}': "line 2: --text-field text is an object, not a text",
    '{"text": "one}': "line 2 is not JSON: Unterminated string starting at at character 10; ",
    "words": "line 2 is not JSON: Expecting value at character 1; give one object per line",
    '[{"text": "one"}]': "line 2 is a list, not a JSON object; give one object per line (of a list",
    '"text"': "line 2 is a text, not a JSON object; give one object per line",
    "[" * 100_000: "line 2 is ",
}


@pytest.mark.parametrize("line", WRONG_LINES)
@pytest.mark.parametrize("workers", [1, 2])
def test_wrong_lines(line, workers, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(json_lines(["fine"]) + line.encode() + b"\n" + json_lines(["fine"]))
    with pytest.raises(ValueError) as error:
        clean_file(str(path), Cleaner(TextTreatment()), str(tmp_path / "c"), workers, Bar(), "text")
    assert str(error.value).startswith(f"{path}, {WRONG_LINES[line]}")
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError):
        check_texts(str(path), "text")
    assert not (tmp_path / "c.txt").exists()


def test_lines_are_counted_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 50)
    path = tmp_path / "a.jsonl"
    path.write_bytes(json_lines(["fine"] * 40) + b"\n\n\xff\n{}\n")
    source = open_texts(str(path), "text")
    with pytest.raises(ValueError, match="line 44: there is no field"):
        for block in source.blocks():
            source.texts(block)


def test_a_line_beyond_the_limit_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(json_texts, "OBJECT_BYTES", 2 << 20)
    path = tmp_path / "a.jsonl"
    path.write_bytes(json_lines(["x"] * 9) + json_lines(["y" * (5 << 20)]))
    source = open_texts(str(path), "text")
    with pytest.raises(ValueError, match="a.jsonl, line 10 is longer than 2 MiB"):
        list(source.blocks())


def test_long_texts_are_taken_whole(tmp_path):
    """Of more than the longest line of a plain text."""
    path = tmp_path / "a.jsonl"
    text = "some words\n" * 600_000
    path.write_bytes(json_lines([text, "end"]))
    source = open_texts(str(path), "text")
    assert sum((source.texts(block)[0] for block in source.blocks()), []) == [text, "end"]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.txt", b"words\n" * 9, "is plain text, which has no fields; leave --text-field out"),
        ("a.txt.gz", gzip.compress(b"words\n"), "is plain text, which has no fields"),
        ("a.zst", b"\x28\xb5\x2f\xfd....", "is a zstd archive, which is not supported"),
        ("a.jsonl", json_lines().decode().encode("utf-16"), "in UTF-16 or UTF-32; convert it"),
        ("a.json", b"[\n" + json_lines(["a"]), "line 1 is not JSON: .*jq -c"),
        ("a", json.dumps([{"text": "one"}]).encode(), "line 1 is a list, not .*jq -c"),
        ("a.parquet", json_lines(), "cannot be read as parquet"),
        ("a.parquet", b"", "cannot be read as parquet"),
        ("a", b"PAR1" + bytes(99), "cannot be read as parquet"),
    ],
)  # fmt: skip
def test_other_files(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        check_texts(str(path), "text")
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


def test_an_empty_file_has_no_rows(tmp_path):
    (tmp_path / "a.jsonl").touch()
    check_texts(str(tmp_path / "a.jsonl"), "text")


def test_columns_of_parquet(tmp_path):
    path = str(write_parquet(tmp_path / "a.parquet", ["one", None, "two"], bytes=[b"x"] * 3))
    with pytest.raises(ValueError, match=r"a.parquet, row 2: --text-field text is null, not a tex"):
        check_texts(path, "text")
    message = r"no column 'txt' \(--text-field\); the columns are 'id', 'text', 'bytes'$"
    with pytest.raises(ValueError, match=message):
        open_texts(path, "txt")
    with pytest.raises(ValueError, match="--text-field id is a column of int64, not of texts"):
        open_texts(path, "id")
    with pytest.raises(ValueError, match="--text-field bytes is a column of binary, not of texts"):
        open_texts(path, "bytes")
    many = str(write_parquet(tmp_path / "b", ["x"], **{f"c{i}": [1] for i in range(20)}))
    with pytest.raises(ValueError, match="'id', 'text', 'c0', .*'c7' and 12 more$"):
        open_texts(many, "txt")


@pytest.mark.parametrize("kind", ["large_string", "dictionary", "not-compressed"])
def test_kinds_of_text_in_parquet(kind, tmp_path):
    values = pyarrow.array(["one", "two", "one"])
    if kind == "large_string":
        values = values.cast(pyarrow.large_string())
    elif kind == "dictionary":
        values = values.dictionary_encode()
    compression = "NONE" if kind == "not-compressed" else "ZSTD"
    path = tmp_path / "a"
    pyarrow.parquet.write_table(pyarrow.table({"t": values}), path, compression=compression)
    source = open_texts(str(path), "t")
    assert list(source.blocks()) == [["one", "two", "one"]]


def test_damaged_parquet(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", [f"text {i}" for i in range(999)])
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(range(1, 199)) * 2
    path.write_bytes(content)
    with pytest.raises(ValueError, match="a.parquet cannot be read as parquet"):
        list(open_texts(str(path), "text").blocks())


def test_long_texts_of_parquet_come_a_few_at_a_time(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", [f"{i} " * 500_000 for i in range(8)])
    blocks = list(open_texts(str(path), "text").blocks())
    assert len(blocks) > 1 and len(sum(blocks, [])) == 8


def test_without_pyarrow(tmp_path, monkeypatch):
    path = str(write_parquet(tmp_path / "a.parquet"))
    for name in ("parquet_texts", "parquet_file"):
        monkeypatch.delitem(sys.modules, f"tupe_fairseq.text.{name}")
    hide(monkeypatch, "pyarrow")
    with pytest.raises(ModuleNotFoundError, match="pyarrow"):
        check_texts(path, "text")
    (tmp_path / "a.jsonl").write_bytes(json_lines())
    check_texts(str(tmp_path / "a.jsonl"), "text")
