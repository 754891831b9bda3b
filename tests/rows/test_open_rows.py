"""Files of rows of every kind, and what is wrong with them, by file and row."""

import bz2
import gzip
import lzma
import re
import sys

import pyarrow
import pyarrow.parquet
import pytest

from helpers.hidden import hide
from tupe_fairseq.rows import conll_rows
from tupe_fairseq.rows.open_rows import open_rows
from tupe_fairseq.rows.row_file import BadRow
from tupe_fairseq.text import parquet_file, reading

COMPRESSIONS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
#: the same rows, and the lines in which they begin
SAME = {
    "a.tsv": (b"text\tlabel\nth\xc3\xa9 \"one\"\t1\r\ntwo\tno\n\n", [2, 3]),
    "a.csv": (b'\xef\xbb\xbftext,label\r\n"th\xc3\xa9 ""one""",1\r\ntwo,no', [2, 3]),
    "a.jsonl": (
        b'{"text": "th\xc3\xa9 \\"one\\"", "label": 1}\n\n{"label": "no", "text": "two"}\n', [1, 3],
    ),
}  # fmt: skip
ROWS = [['th\xe9 "one"', "1"], ["two", "no"]]


def write(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def values(file, *columns):
    return [row.values for row in file.rows(list(columns) or None)]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("name", SAME)
def test_the_same_rows(name, compression, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 9)
    content, lines = SAME[name]
    path = write(tmp_path / (name.upper() + compression), COMPRESSIONS[compression](content))
    file = open_rows(path)
    assert file.columns == ["text", "label"]
    for _ in range(2):  # anew each time
        assert values(file) == ROWS
    assert [row.number for row in file.rows()] == lines
    assert values(file, "label") == [["1"], ["no"]]
    assert values(file, "label", "text") == [["1", 'th\xe9 "one"'], ["no", "two"]]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_text_in_each_line(compression, tmp_path):
    """Empty ones, too: nothing is lost."""
    content = COMPRESSIONS[compression]('thé "one"\t1\r\n\ntwo'.encode())
    file = open_rows(write(tmp_path / f"a.txt{compression}", content))
    assert file.columns == ["text"] and values(file) == [['thé "one"\t1'], [""], ["two"]]
    assert [row.number for row in file.rows()] == [1, 2, 3]


def test_parquet(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_file, "_MOST_ROWS", 2)
    columns = {
        "text": ["one", "two", "three"], "label": [1, 0, 2], "score": [0.5, 1.0, -2.0],
        "good": [True, False, True], "tokens": [["a", "b"], [], ["c"]], "ids": [[1], [2, 3], []],
    }  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    file = open_rows(str(tmp_path / "a.parquet"))
    assert file.columns == list(columns)
    assert values(file)[1:] == [
        ["two", "0", "1.0", "false", [], ["2", "3"]], ["three", "2", "-2.0", "true", ["c"], []],
    ]  # fmt: skip
    assert [row.number for row in file.rows(["ids", "text"])] == [1, 2, 3]
    assert values(file, "ids", "text")[1] == [["2", "3"], "two"]
    assert file.place(3) == f"{file.path}, row 3"


def test_csv_fields_with_everything(tmp_path):
    path = write(tmp_path / "a.csv", b'a,b\n"1,\t""\r\n\n2",x\n"",""\n,\n"last\nof all",y\n')
    rows = list(open_rows(path).rows())
    assert [row.values for row in rows] == [
        ['1,\t"\r\n\n2', "x"], ["", ""], ["", ""], ["last\nof all", "y"],
    ]  # fmt: skip
    assert [row.number for row in rows] == [2, 5, 6, 7]


def test_a_field_beyond_the_limit_of_csv(tmp_path):
    text = "words " * 100_000
    assert values(open_rows(write(tmp_path / "a.csv", f'a,b\n"{text}",1\n'))) == [[text, "1"]]


def test_conll(tmp_path):
    content = "-DOCSTART- -X- O\n\nEU NNP  B-ORG\nrejects VBZ O\n\n\n# NN O\r\n10\u00a0000 CD O\n"
    file = open_rows(write(tmp_path / "a.conll.gz", gzip.compress(content.encode())))
    assert file.columns == ["1", "2", "3"] and file.tags == "3"
    rows = list(file.rows(["1", "3"]))
    assert [row.values for row in rows] == [
        [["EU", "rejects"], ["B-ORG", "O"]], [["#", "10\u00a0000"], ["O", "O"]],
    ]  # fmt: skip
    assert [row.number for row in rows] == [3, 7]
    tabs = open_rows(write(tmp_path / "b.conll", "New York\tB-LOC\n \nis\tO"))
    assert values(tabs) == [[["New York"], ["B-LOC"]], [["is"], ["O"]]]
    assert open_rows(write(tmp_path / "c.conll", "one\ntwo\n")).tags is None


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_without_a_header(name, tmp_path):
    content = "one,x\ntwo,y\n" if name == "a.csv" else "one\tx\ntwo\ty\n"
    file = open_rows(write(tmp_path / name, content), header=False)
    assert file.columns == ["1", "2"] and not file.has_names
    assert values(file, "2") == [["x"], ["y"]]
    assert [row.number for row in file.rows()] == [1, 2]


def test_columns_by_name_or_number(tmp_path):
    file = open_rows(write(tmp_path / "a.tsv", "text\t1\tlabel\na\tb\tc\n"))
    assert [file.column(name, "--text-column") for name in ("label", "1", "3")] == [
        "label", "1", "label",
    ]  # fmt: skip
    for name in ("Text", "0", "4", "-1", ""):
        with pytest.raises(ValueError) as error:
            file.column(name, "--text-column")
        assert str(error.value) == (
            f"{file.path} has no column {name!r} (--text-column); the columns are 'text', '1', "
            "'label', or 1 to 3"
        )


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.tsv", b"", " is empty"),
        ("a.csv", b"\n\n", " is empty"),
        ("a.jsonl", b"\n", " is empty"),
        ("a.conll", b"\n-DOCSTART- O\n", " is empty"),
        ("a.tsv", b"text\tlabel\n", " has no rows"),
        ("a.csv", b"text,label\n\n", " has no rows"),
        ("a.tsv", b"a\tb\na\tb\na\n", ", line 3 has 1 column, and line 1 has 2"),
        ("a.tsv", b"a\tb\na\tb\na\tb\tc\n", ", line 3 has 3 columns, and line 1 has 2"),
        ("a.csv", b'a,b\n"x\ny",b\na,b,c\n', ", line 4 has 3 columns, and line 1 has 2"),
        ("a.tsv", b"a\tb\na\tb\n\n\na\tb\n", ", line 3 is blank, but rows follow; remove it"),
        ("a.csv", b"a\n\nb\n", ", line 2 is blank, but rows follow; remove it"),
        ("a.tsv", b"a\tb\ta\n1\t2\t3\n", " has several columns 'a'; rename all but one"),
        ("a.csv", b"a,b,,\n1,2,3,4\n", " has several columns ''; rename all but one"),
        ("a.csv", b'a,b\nx,y\n"z,y\nx,y\n', ", line 3 begins no row of CSV: unexpected end of da"),
        ("a.csv", b'a,b\n"x"y,z\n', ", line 2 begins no row of CSV: ',' expected after '\"'; is a"),
        ("a.csv", b"a,b\nx\ry,z\n", ", line 2 begins no row of CSV: new-line character seen"),
        ("a.tsv", b"a\tb\nx\xff\ty\n", ", line 2 is not UTF-8; convert the file first: iconv -t"),
        ("a.csv", "a,b\nx,y\n".encode("utf-16"), ", line 1 is not UTF-8; convert the file first"),
        ("a.jsonl", b'{"a": 1}\n{"a": \xff}\n', ", line 2 is not UTF-8"),
        ("a.jsonl", b'{"a": 1}\n\n{"a": }\n', ", line 3 is not JSON: Expecting value at characte"),
        ("a.jsonl", b'[{"a": 1}]\n', ", line 1 is a list, not a JSON object; give one object per"),
        ("a.jsonl", b'{"a": 1, "b": 2}\n{"b": 2}\n', ", line 2 has no 'a', which the first row h"),
        ("a.jsonl", b'{"a": 1}\n{"b": 2, "a": 1}\n', ", line 2 has 'b', which the first row has n"),
        ("a.jsonl", b'{"a": null}\n', ", line 1 has null in column 'a', which is neither text nor"),
        ("a.jsonl", b'{"a": {}}\n', ", line 1 has an object in column 'a', which is neither text"),
        ("a.jsonl", b'{"a": ["x", null]}\n', ", line 1 has a list with null in column 'a', which"),
        ("a.conll", b"a O\nb\n", ", line 2 has 1 column with something in it, and the first line "),
        ("a.conll", b"a\tX\tO\nb\t\tO\n", ", line 2 has 2 columns with something in it, and"),
        ("a.conll", b"x O\n" * 9 + b"\n" + b"x O\n" * 11, ", line 11 begins a sentence of more th"),
        ("a.text", b"words\n", " has no ending that says what it is; rename it to end in one of "),
        ("a.csv.gz", b"a,b\n", " is not compressed as its name says"),
        ("a.tsv.gz", gzip.compress(b"a\tb\n" * 999)[:-9], " is damaged or cut short"),
        ("a.parquet", b"a,b\n", " cannot be read as parquet"),
    ],
)  # fmt: skip
def test_wrong(name, content, message, tmp_path, monkeypatch):
    monkeypatch.setattr(conll_rows, "_MOST_TOKENS", 10)
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError) as error:
        list(open_rows(path).rows())
    assert str(error.value).startswith(path + message) and "\n" not in str(error.value)


def test_further_names_matter_only_if_all_are_asked_for(tmp_path):
    file = open_rows(write(tmp_path / "a.jsonl", '{"a": 1}\n{"a": 2, "b": null}\n'))
    assert values(file, "a") == [["1"], ["2"]]


def test_wrong_values_of_parquet(tmp_path):
    path = str(tmp_path / "a.parquet")
    columns = {"a": ["x", None], "b": [b"x", b"y"], "c": [{"d": 1}, {"d": 2}]}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    for column, message in [
        ("a", "row 2 has null in column 'a'"), ("b", "row 1 has bytes in column 'b'"),
        ("c", "row 1 has an object in column 'c'"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=f"a.parquet, {message}, which is neither text nor nu"):
            values(open_rows(path), column)
    pyarrow.parquet.write_table(pyarrow.table({"a": pyarrow.array([], "string")}), path)
    with pytest.raises(ValueError, match="a.parquet has no rows"):
        values(open_rows(path))


def test_a_line_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("tupe_fairseq.rows.decoded_lines.LINE_BYTES", 1 << 20)
    path = write(tmp_path / "a.tsv", "a\n" * 5 + "x" * (3 << 20))
    with pytest.raises(ValueError, match="a.tsv, line 6 is longer than 1 MiB"):
        values(open_rows(path))


def test_without_pyarrow(tmp_path, monkeypatch):
    for name in ("rows.parquet_rows", "text.parquet_file"):
        monkeypatch.delitem(sys.modules, f"tupe_fairseq.{name}", raising=False)
    hide(monkeypatch, "pyarrow")
    with pytest.raises(ModuleNotFoundError, match="pyarrow"):
        open_rows(str(tmp_path / "a.parquet"))


@pytest.mark.parametrize(
    "name, content, kept, reasons",
    [
        ("a.tsv", "a\tb\n1\t2\nx\n3\t4\t5\n6\t7\n", ["1", "6"], ["another number of columns"] * 2),
        ("a.csv", 'a,b\n"1\n",2\nx\n6,7\n', ["1\n", "6"], ["another number of columns"]),
        (
            "a.jsonl",
            '{"a": 1}\n[2]\n{"a": 3\n{"b": 4}\n{"a": null}\n{"a": "6 \\ud800"}\n',
            ["1", "6 "],
            ["not a JSON object"] * 2 + ["another number of columns", "neither text nor number"],
        ),
        (
            "a.conll",
            "1 A\n2 B\n\n3 A\n4\n5 A\n\n6 A\n",
            [["1", "2"], ["6"]],
            ["another number of columns"],
        ),
        (
            "b.csv",
            f"a,b\n1,2\n{'x' * 2**20}y,4\n6,7\n",
            ["1", "6"],
            ["more than 1,048,576 characters"],
        ),
    ],
    ids=["a.tsv", "a.csv", "a.jsonl", "a.conll", "b.csv"],
)
def test_bad_rows_are_left_out_on_request(name, content, kept, reasons, tmp_path):
    file, bad = open_rows(write(tmp_path / name, content)), []
    rows = list(file.rows(file.columns[:1], bad.append))
    assert [row.values[0] for row in rows] == kept
    assert [row.reason for row in bad] == reasons
    assert all(str(row).startswith(f"{file.path}, line ") for row in bad)
    with pytest.raises(BadRow, match=re.escape(str(bad[0]))):
        list(file.rows(file.columns[:1]))


def test_bad_rows_of_parquet(tmp_path):
    table = pyarrow.table({"a": ["x", None, "y"]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    bad = []
    rows = list(open_rows(str(tmp_path / "a.parquet")).rows(["a"], bad.append))
    assert [row.number for row in rows] == [1, 3] and len(bad) == 1


def test_a_quote_that_is_not_closed_is_no_bad_row(tmp_path):
    """The rest of the file is in it."""
    path = write(tmp_path / "a.csv", 'a,b\n1,2\n"3,4\n5,6\n')
    with pytest.raises(ValueError, match="line 3 begins no row of CSV"):
        list(open_rows(path).rows(None, lambda bad: None))
