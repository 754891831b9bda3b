"""Files of rows of every format are read and written; columns are found, and bad rows named."""

import bz2
import gzip
import io
import lzma
import re
import sys

import pyarrow
import pyarrow.parquet
import pytest

from tupe_fairseq.data.row_formats import RowError
from tupe_fairseq.data.rows import read_columns, read_rows
from tupe_fairseq.labelled.columns import choose_columns

COMPRESSIONS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
#: the same rows, and the lines in which they begin
SAME = {
    "a.tsv": (b"text\tlabel\nth\xc3\xa9 \"one\"\t1\r\n\ntwo\tno\n\n", [2, 4]),
    "a.csv": (b'\xef\xbb\xbftext,label\r\n"th\xc3\xa9 ""one""",1\r\ntwo,no', [2, 3]),
    "a.jsonl": (
        b'{"text": "th\xc3\xa9 \\"one\\"", "label": 1}\n\n{"label": "no", "text": "two"}\n', [1, 3],
    ),
}  # fmt: skip


def write(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def conllu(*lines):
    """CoNLL-U lines of ten columns, of which the first two are given."""
    return "".join(line.replace(" ", "\t") + "\t_" * 8 + "\n" for line in lines)


def values(path, *columns, **options):
    return [list(row.values()) for _, row in all_rows(path, *columns, **options)]


def all_rows(path, *columns, **options):
    return list(read_rows(path, list(columns) or read_columns(path), **options))


@pytest.mark.parametrize("name, compression", [*zip(SAME, COMPRESSIONS), ("a.tsv", ".bz2")])
def test_the_same_rows(name, compression, tmp_path):
    content, lines = SAME[name]
    path = write(tmp_path / (name.upper() + compression), COMPRESSIONS[compression](content))
    assert read_columns(path) == ["text", "label"]
    rows = [{"text": 'thé "one"', "label": "1"}, {"text": "two", "label": "no"}]
    assert all_rows(path) == list(zip(lines, rows))
    assert values(path, "label", "text") == [["1", 'thé "one"'], ["no", "two"]]


def test_a_text_in_each_line(tmp_path, monkeypatch):
    """Empty texts, too, so that no line is lost."""
    content = 'thé "one"\t1\r\n\ntwo'.encode()
    expected = [(1, {"text": 'thé "one"\t1'}), (2, {"text": ""}), (3, {"text": "two"})]
    assert all_rows(write(tmp_path / "a.txt.gz", gzip.compress(content))) == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert all_rows("-", "text") == expected
    assert values(write(tmp_path / "a.tsv", "text\na\n\nb\n")) == [["a"], [""], ["b"]]


def test_parquet(tmp_path):
    columns = {
        "text": ["one", "two", "three"], "label": [1, 0, 2], "score": [0.5, 1.0, -2.0],
        "good": [True, False, True], "tokens": [["a", "b"], [], ["c"]], "null": ["x", None, "y"],
    }  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    path = str(tmp_path / "a.parquet")
    assert read_columns(path) == list(columns)
    assert list(read_rows(path, ["tokens", "label"]))[1] == (2, {"tokens": [], "label": "0"})
    assert values(path, "score", "good")[1:] == [["1.0", "false"], ["-2.0", "true"]]
    bytes_ = pyarrow.table({"text": ["\u00e9".encode(), b"\xe9"]})
    pyarrow.parquet.write_table(bytes_, tmp_path / "b.parquet")
    assert values(str(tmp_path / "b.parquet"), on_bad=str) == [["\u00e9"]]
    twice = pyarrow.table([["a"], ["b"]], names=["text", "text"])
    pyarrow.parquet.write_table(twice, tmp_path / "b.parquet")
    with pytest.raises(ValueError, match="b.parquet has columns of the same name: 'text', 'text'"):
        read_columns(str(tmp_path / "b.parquet"))
    bad = []
    assert [number for number, _ in all_rows(path, on_bad=bad.append)] == [1, 3]
    assert (
        str(bad[0]) == f"{path}, row 1 has null in column 'null', which is neither text nor number"
    )


def test_csv_fields_with_everything(tmp_path):
    path = write(tmp_path / "a.csv", b'a,b\n"1,\t""\r\n\n2",x\n"",""\n,\n"last\nof all",y\n')
    assert [(number, *row.values()) for number, row in all_rows(path)] == [
        (2, '1,\t"\r\n\n2', "x"), (5, "", ""), (6, "", ""), (7, "last\nof all", "y"),
    ]  # fmt: skip
    text = "words " * 100_000  # beyond the limit of csv
    assert values(write(tmp_path / "b.csv", f'a,b\n"{text}",1\n')) == [[text, "1"]]


def test_conll(tmp_path):
    content = "-DOCSTART- -X- O\n\nEU NNP  B-ORG\nrejects VBZ O\n\n\n# NN O\r\n10\u2009000 CD O\n"
    path = write(tmp_path / "a.conll.gz", gzip.compress(content.replace("\u2009", "_").encode()))
    assert all_rows(path, "1", "3") == [
        (3, {"1": ["EU", "rejects"], "3": ["B-ORG", "O"]}),
        (7, {"1": ["#", "10_000"], "3": ["O", "O"]}),
    ]
    tabs = write(tmp_path / "b.conll", "New York\tB-LOC\n \nis\tO")
    assert values(tabs) == [[["New York"], ["B-LOC"]], [["is"], ["O"]]]


TWO = [["one, two", "x"], ["three", "y"]]
CONLLU = [[list("1234"), ["a", "de", "le", "b"], *[["_"] * 4] * 8]]
SENTENCES = [[["Ann", "sings"], ["B-PER", "O"]], [["Bo"], ["O"]]]


@pytest.mark.parametrize(
    "name, content, expected",
    [
        # other separators in .csv
        ("a.csv", 'text;label\n"one, two";x\nthree;y\n', TWO),
        ("a.csv", '"text, long";label\n"one, two";x\nthree;y', TWO),
        ("a.csv", '"text; long",label\n"one, two",x\nthree,y', TWO),
        ("a.csv", 'text|"label,\nor none"\none, two|x\nthree|y', TWO),
        ("a.csv", 'text, label\n"one, two", "x"\n"three", "y"\n', TWO),
        ("a.csv", "text\none; two\nthree;\n", [["one; two"], ["three;"]]),
        ("a.csv", "sep=;\r\ntext;label\r\none, two;x\r\nthree;y\r\n", TWO),
        ("a.csv", "\ufeffsep=,\ntext,label\n\"one, two\",x\nthree,y\n", TWO),
        # spaces at the beginning of a field, unless its quotes are behind them
        ("a.csv", 'text,label\n"one, ""two""", x\n  three,y\n',
         [['one, "two"', " x"], ["  three", "y"]]),
        ("a.csv", 'text,label\none, "two" he said\n', [["one", ' "two" he said']]),
        # repeated column names
        ("a.csv", "a,b,,\n1,2,3,4\n", [["1", "2", "3", "4"]]),
        # compressed or not, whatever the name says
        ("a.txt", gzip.compress(b"one\ntwo"), [["one"], ["two"]]),
        ("a.txt.gz", bz2.compress(b"one\ntwo"), [["one"], ["two"]]),
        # comments and documents
        ("a.conll", "# id 1\nAnn B-PER\nsings O\n\n# x\nBo O\n", SENTENCES),
        ("a.conll", "# global = 1\n\n# id\tx\n# text = a\nAnn B-PER\nsings O\n\nBo O", SENTENCES),
        ("a.conll", "#\tsource\t2\nAnn\tB-PER\nsings\tO\n\n#\tx\ty\nBo\tO", SENTENCES),
        ("a.conll", "#begin document (1)\nAnn B-PER\nsings O\n\nBo O\n#end document", SENTENCES),
        ("a.conll", "\ufeff-DOCSTART- O\n\nAnn  B-PER \nsings\tO\n\nBo O\n\n", SENTENCES),
        ("a.conll", "Ann\tB-PER\t\nsings\tO\t\n\nBo\tO\t\n", SENTENCES),
        ("a.conll", "#a\tO\n#\tO\n\n# O\tO\n", [[["#a", "#"], ["O", "O"]], [["# O"], ["O"]]]),
        # CoNLL-U: multiword tokens and empty nodes
        ("a.conll", conllu("1 a", "2-3 du", "2 de", "3 le", "3.1 x", "4 b"), CONLLU),
        ("a.conll", "1\u00a00 O\n\u3000 O\u2028\n", [[["1\u00a00", "\u3000"], ["O", "O\u2028"]]]),
    ],
)  # fmt: skip
def test_read_as_they_are_meant(name, content, expected, tmp_path):
    assert values(write(tmp_path / name, content)) == expected


NO_TEXT = " is not text in UTF-8, it begins with b'"


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.txt", b"one\rtwo\r", " ends its lines with CR; convert it first: tr"),
        # .zip (packed again), .tar, UTF-16
        ("a.txt.gz", gzip.compress(b"PK\x03\x04"), NO_TEXT),
        ("a.csv", b"a" * 257 + b"ustar\0", NO_TEXT),
        ("a.tsv", "text\tlabel\n".encode("utf-16-le"), NO_TEXT),
        ("a.txt", b'["one", "two"]\n', " holds JSON, not lines of text"),
        ("a.csv", b'a,b\n"one" x,1\n', ", line 2 is not a row of CSV: "),
        ("a.tsv", b"text,label\na,1\n", " begins with one field, 'text,label'; name it .tsv if"),
        ("a.conll", b"#id=1\na O\n\n#id=2\nb O", ", line 1 has 1 fields, and the first token 2"),
        ("a.conll", b"a\tO\n\tO\n", ", line 2 has an empty field"),
        ("a.tsv", b"", " has no rows"),
        ("a.csv", b'a,"b\n\xff"\nx,y\n', ", line 1 is not UTF-8; convert the file first: iconv -f"),
        ("a.tsv.gz", gzip.compress(b"a\tb\n" * 999)[:-9], " cannot be read: Compressed file ended"),
    ],
)  # fmt: skip
def test_wrong(name, content, message, tmp_path):
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError) as error:
        all_rows(path)
    assert str(error.value).startswith(path + message) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "name, content, kept, reasons",
    [
        ("a.tsv", "a\tb\n1\t2\nx\n3\t4\t5\n6\t7\n", ["1", "6"], ["other columns"] * 2),
        ("a.jsonl", '{"a": 1, "b": null}\n[2]\n{"a": 3\n{"b": 4}\n{"a": {}}\n{"a": "6 \\ud800"}\n',
         ["1", "6 "], ["not a JSON object"] * 2 + ["other columns", "neither text nor number"]),
        ("a.conll", "1 A\n2 B\n\n3 A\n4\n5 A\n\n6 A\n", [["1", "2"], ["6"]], ["other columns"]),
        ("a.jsonl", '{"a": NaN}\n{"a": -Infinity}\n{"a": 1e400}\n{"a": [NaN]}\n{"a": "NaN"}\n',
         ["NaN"], ["neither text nor number"] * 4),
        ("a.jsonl", '{"a": 1}\n{"a": 2, "b": 1, "a": 3}\n{"a": 4, "b": {"c": 1, "c": 2}}\n',
         ["1"], ["not a JSON object"] * 2),
        ("a.txt", b"one\ncaf\xe9\ntwo", ["one", "two"], ["not UTF-8"]),
        ("a.csv", b'a,b\n1,2\n"x\n\xe9",y\n3,4\n', ["1", "3"], ["not UTF-8"]),
        ("a.jsonl", b'{"a": "1"}\n{"a": "x", "b": "\xe9"}\n', ["1"], ["not UTF-8"]),
        ("a.conll", b"1 A\n\n\xe9 A\n\n2 A\n", [["1"], ["2"]], ["not UTF-8"]),
        # a wrong quote makes several lines bad
        ("a.csv", 'a,b\n1,2\n"x\ny" z,3\n"4",5\n"open,6\n7,8', ["1", "4"], ["not CSV"] * 4),
    ],
)  # fmt: skip
def test_bad_rows_are_refused_or_left_out(name, content, kept, reasons, tmp_path):
    path, bad = write(tmp_path / name, content), []
    columns = read_columns(path)[:1]
    assert values(path, *columns, on_bad=bad.append) == [[value] for value in kept]
    assert [error.reason for error in bad] == reasons
    assert all(str(error).startswith(f"{path}, line ") for error in bad)
    with pytest.raises(RowError, match=re.escape(str(bad[0]))):
        values(path, *columns)


def test_a_comment_that_may_be_a_word_is_named(tmp_path, caplog):
    path = write(tmp_path / "a.conll", "# x y z\nAnn B\n\n# SYM\none NUM\n\n# SYM\nBo O\n")
    assert values(path) == [[["Ann"], ["B"]], [["one"], ["NUM"]], [["Bo"], ["O"]]]
    warning = f"{path}, line 4: '# SYM' is a comment, as the file begins with one; separate fields"
    assert warning in caplog.text and len(caplog.records) == 1


def test_quotes_in_tsv_stay_with_a_warning(tmp_path, caplog):
    path = write(tmp_path / "a.tsv", 'a\tb\n"He said ""no"""\t1\nHe said "no"\t2\n"x"\t3\n')
    assert [row[0] for row in values(path)] == ['"He said ""no"""', 'He said "no"', '"x"']
    assert f"{path}: fields begin and end with a quote" in caplog.text
    assert values(write(tmp_path / "a.csv", (tmp_path / "a.tsv").read_bytes()))[0] == [
        'He said "no"', "1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "names, expected",
    [
        (["label", "hypothesis", "premise"], (("premise", "hypothesis"), "label")),
        (["id", "tokens", "pos_tags", "ner_tags"], (("tokens",), "ner_tags")),
        (["", "tweet", " Target"], (("tweet",), " Target")),
    ],
)
def test_guessed_columns(names, expected, tmp_path, caplog):
    caplog.set_level("INFO")
    path = write(tmp_path / "a.tsv", "\t".join(names) + "\n" + "\t".join("x" for _ in names))
    assert choose_columns(path, labelled=True) == expected
    assert f"a.tsv: guessed --text {expected[0][0]!r}, --" in caplog.text
    assert f", --label {expected[1]!r}" in caplog.text
    assert choose_columns(path, num_texts=1) == (expected[0][:1], None)


@pytest.mark.parametrize(
    "content, expected",
    [
        ("Ann NNP B\n1 CD O\n\n1 CD O\n", ("1", "3")),
        (conllu("1 a", "2 b") + "\n" + conllu("1 c"), ("2", "4")),
        ("0 Ann B-PER O\n1 sings O O\n", ("2", "4")),
        ("# x\nbc/x 0 0 Ann B\nbc/x 0 1 sings O\n\nbc/x 0 0 Bo O\n", ("4", "5")),
    ],
)
def test_guessed_columns_of_conll(content, expected, tmp_path):
    """The first column may number the words, or name the document."""
    columns = choose_columns(write(tmp_path / "a.conll", content), labelled=True)
    assert (*columns.texts, columns.label) == expected


def test_columns_of_json_are_those_of_all_first_rows(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"id": 1}\n[]\n{"label": 1, "text": "a"}\n')
    assert choose_columns(path, labelled=True) == (("text",), "label")
