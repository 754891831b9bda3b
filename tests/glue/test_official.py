"""Reading the official GLUE files: every oddity, and what is refused."""

import pytest

from helpers.glue_files import write_glue
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS, task_named
from tupe_fairseq.glue.official import official_files, read_rows
from tupe_fairseq.labelled.task_rows import MAX_CHARACTERS


@pytest.fixture
def read(tmp_path):
    """Reads one file of a task from its lines (bytes)."""

    def read(name, split, *lines, end=b"\n"):
        path = tmp_path / "file.tsv"
        path.write_bytes(b"".join(line + end for line in lines))
        return read_rows(GLUE_TASKS[name], split, str(path))

    return read


@pytest.mark.parametrize("name", GLUE_TASKS)
def test_every_task_with_oddities(name, tmp_path):
    found = write_glue(tmp_path, [name])[name]
    paths = official_files(GLUE_TASKS[name], str(tmp_path))
    assert list(paths) == list(found)
    for split, path in paths.items():
        rows = read_rows(GLUE_TASKS[name], split, path)
        assert (rows.texts, rows.labels, rows.index) == (
            found[split].texts, found[split].labels, found[split].index
        )  # fmt: skip
        assert rows.read == found[split].read
        assert sum(rows.dropped.values()) == found[split].dropped


def test_only_line_feeds_and_tabs_divide(read):
    rows = read("CoLA", "train", 'a\t1\t\tone "two\u0085\u2028 \r three\x1c'.encode(), end=b"\r\n")
    assert rows.texts == [('one "two\u0085\u2028 \r three\x1c',)]
    assert rows.labels == ["1"]


def test_byte_order_mark_without_header(read):
    assert read("CoLA", "train", b"\xef\xbb\xbfa\t1\t\tone").texts == [("one",)]


def test_blank_lines_at_the_end_are_no_rows(read):
    rows = read("SST-2", "test", b"index\tsentence", b"0\tone", b"", b"2\ttwo", b"", b"")
    assert rows.read == 3 and rows.index == ["0", "1", "2"]
    assert rows.texts == [("one",), ("",), ("two",)]
    assert rows.warnings == {"fewer than 2 fields": 1, "empty text": 1}


def test_index_is_the_files_own(read):
    assert read("QQP", "test", b"id\ta\tb", b"7\tx\ty", b"9\tx\ty").index == ["7", "9"]


def test_index_is_counted_where_there_is_none(read):
    assert read("SST-2", "test", b"genre\tsentence", b"a\tx", b"b\ty").index == ["0", "1"]


def test_repeated_index_is_counted_anew(read):
    rows = read("SST-2", "test", b"index\tsentence", b"4\tx", b"4\ty", b"6\tz")
    assert rows.index == ["0", "1", "2"]
    assert rows.warnings == {"repeated index, so rows are numbered from 0": 1}


@pytest.mark.parametrize(
    "index",
    ["", " ", "1 2", "4\u2028", "\u00a0", "1\r2", "7\x0b", "\ufeff3", "9\u0085", "\ud7ff\u2029"],
    ids=ascii,
)
def test_an_index_that_no_submission_can_have_is_counted_anew(index, read):
    lines = [b"index\tsentence", b"4\tx", f"{index}\ty".encode(), b"6\tz"]
    rows = read("SST-2", "test", *lines)
    assert rows.index == ["0", "1", "2"] and len(rows.texts) == 3
    assert rows.warnings == {"empty or broken index, so rows are numbered from 0": 1}


def test_line_broken_in_two_keeps_two_numbers(read):
    rows = read("QQP", "test", b"id\ta\tb", b"0\tWhat", b"goes on?\tHow?", b"2\tx\ty")
    assert rows.index == ["0", "1", "2"]
    assert rows.texts == [("What", ""), ("How?", ""), ("x", "y")]
    assert rows.warnings == {"fewer than 3 fields": 2, "empty text": 2}


def test_short_lines_are_dropped(read):
    rows = read("RTE", "train", b"index\ta\tb\tlabel", b"0\tx\ty", b"1\tx\ty\tentailment")
    assert rows.read == 2 and rows.texts == [("x", "y")]
    assert rows.dropped == {"fewer than 4 fields": 1}


def test_further_fields_are_ignored_but_in_qqp(read):
    rows = read("RTE", "train", b"index\ta\tb\tlabel", b"0\tx\ty\tentailment\tmore")
    assert rows.texts == [("x", "y")]
    header = b"id\tqid1\tqid2\ta\tb\tlabel"
    rows = read("QQP", "train", header, b"0\t1\t2\tx\ty\t1", b"0\t1\t2\tx\ty\t1\t1")
    assert rows.read == 2 and rows.dropped == {"not 6 fields": 1}


def test_invalid_utf8_is_replaced_and_counted(read):
    rows = read("CoLA", "train", b"a\t1\t\tcaf\xe9", b"a\t0\t\tcaf\xc3\xa9")
    assert rows.texts == [("caf\ufffd",), ("caf\u00e9",)]
    assert rows.warnings == {"invalid UTF-8": 1}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_utf_16_is_no_row_of_a_test_set(encoding, read):
    """Of a test set even broken lines are kept, so that it would be predicted."""
    with pytest.raises(ValueError, match="tsv is (in UTF-16|not UTF-8 text: it has many zero)"):
        read("CoLA", "test", "index\tsentence\n0\tone\n1\ttwo".encode(encoding))


def test_a_huge_line_is_cut_and_counted(read):
    rows = read("CoLA", "train", b"a\t1\t\tshort", b"a\t1\t\t" + b"x " * 5_000_000)
    assert rows.cut == {1} and len(rows.texts[1][0]) == MAX_CHARACTERS
    assert rows.warnings == {"cut at 100000 characters": 1}


STSB = b"\t".join(b"%d" % column for column in range(1, 10))
MNLI = b"\t".join([b"x"] * 15)


@pytest.mark.parametrize(
    "name, split, lines, message",
    [
        ("CoLA", "train", [], "file.tsv is empty"),
        ("SST-2", "train", [b"sentence\tlabel"], "file.tsv is empty"),
        ("SST-2", "test", [b"index\tsentence", b"", b""], "file.tsv is empty"),
        (
            "SST-2",
            "train",
            [b"sentence", b"one"],
            "missing column 2, from which the label of SST-2 .* has 1",
        ),
        ("SST-2", "test", [b"sentence", b"one"], "missing column 2, from which a text of SST-2"),
        (
            "MNLI",
            "valid",
            [MNLI, MNLI],
            r"missing column 16, from which the label of MNLI .* has 15: x, x",
        ),
        ("CoLA", "train", [b"a\t1\tone"] * 3, "missing column 4: no line has more than 3"),
        ("RTE", "train", [b"i\ta\tb\tlabel", b"0\tx\ty"], "missing column 4: no line has more"),
        ("RTE", "train", [b"0\tx\ty\tentailment"] * 2, "the header is missing; line 1 is a row"),
        ("STS-B", "train", [STSB + b"\t2.5"] * 2, "the header is missing"),
        ("RTE", "test", [b"0\tx\ty"] * 2, "the header is missing"),
        ("CoLA", "train", [b"a\tlabel\tc\tsentence"], "line 1: unknown label 'label'; .* are 0, 1"),
        (
            "RTE",
            "train",
            [b"i\ta\tb\tlabel", b"0\tx\ty\tneutral"],
            "line 2: unknown label 'neutral'",
        ),
        ("RTE", "train", [b"index\ta\tb\tlabel", b"0\tx\ty\t-"], "line 2: unknown label '-'"),
        ("SST-2", "train", [b"a\tlabel", b"one\t" + b"2" * 999], "label '2{50}...'; the labels of"),
        ("STS-B", "train", [STSB + b"\tx", STSB + b"\tfive"], "line 2: the score 'five' is not a"),
        ("STS-B", "train", [STSB + b"\tx", STSB + b"\t5.1"], "'5.1' is not a number from 0 to 5"),
        ("STS-B", "valid", [STSB + b"\tx", STSB + b"\tnan"], "'nan' is not a number from 0 to 5"),
        ("MNLI", "valid", [MNLI + b"\tgold", MNLI + b"\t-"], "none of the 1 rows can be used"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_refused(name, split, lines, message, read):
    with pytest.raises(ValueError, match=message):
        read(name, split, *lines)


def test_missing_files(tmp_path):
    task = GLUE_TASKS["MNLI"]
    with pytest.raises(FileNotFoundError, match="MNLI is missing: the official folder of task"):
        official_files(task, str(tmp_path))
    write_glue(tmp_path, ["MNLI"])
    (tmp_path / "MNLI" / "test_matched.tsv").unlink()
    assert list(official_files(task, str(tmp_path))) == ["train", "valid", "valid1", "test1"]
    (tmp_path / "MNLI" / "dev_mismatched.tsv").unlink()
    with pytest.raises(FileNotFoundError, match="dev_mismatched.tsv is missing: task MNLI lacks"):
        official_files(task, str(tmp_path))


def test_unknown_task():
    with pytest.raises(ValueError, match="no GLUE task 'cola'; the tasks are CoLA, SST-2, MRPC"):
        task_named("cola")
