"""Tables of any texts are read as they were written; any bytes are refused by name, or rows."""

import csv
import json

import pytest

from helpers.drawn import drawn
from helpers.drawn import strategies as st
from tupe_fairseq.rows.open_rows import open_rows

# a line feed in a .tsv is a row, a carriage return before it belongs to neither
LETTERS = st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n\t\x00\ufeff")
CELLS = st.text(LETTERS, min_size=1, max_size=6)
TABLES = st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5)
BYTES = st.binary(max_size=60) | st.lists(
    st.sampled_from([b'"', b",", b"\t", b"\n", b"\r", b"x", b"{", b"}", b'"a": 1', b"\xff", b"\0"]),
    max_size=20,
).map(b"".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("drawn")


def rows_of(path):
    return [row.values for row in open_rows(str(path)).rows()]


@drawn(25, table=TABLES)
def test_csv(folder, table):
    with open(folder / "a.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("one", "two"), *table])
    assert rows_of(folder / "a.csv") == [list(row) for row in table]


@drawn(25, table=TABLES)
def test_tsv(folder, table):
    lines = ["\t".join(row) + "\n" for row in [("one", "two"), *table]]
    (folder / "a.tsv").write_bytes("".join(lines).encode())
    assert rows_of(folder / "a.tsv") == [list(row) for row in table]


@drawn(25, table=TABLES, ascii=st.booleans())
def test_json_lines(folder, table, ascii):
    lines = [json.dumps(dict(zip(("one", "two"), row)), ensure_ascii=ascii) for row in table]
    (folder / "a.jsonl").write_bytes("\n".join(lines).encode())
    assert rows_of(folder / "a.jsonl") == [list(row) for row in table]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "conll", "txt", "csv.gz", "tsv.xz"])
@drawn(25, content=BYTES)
def test_any_bytes(ending, folder, content):
    path = folder / f"b.{ending}"
    path.write_bytes(content)
    try:
        file = open_rows(str(path))
        for row in file.rows():
            assert len(row.values) == len(file.columns)
    except ValueError as error:
        assert str(path) in str(error) and "\n" not in str(error)
