"""What tupe-prepare-task refuses, with exit code 2 and one line, or leaves out on request."""

import gzip
import json

import pytest

from helpers.glue_files import sentence, write_pretrain_dir
from helpers.own_files import prepare_task, tagged, write_conll, write_csv, write_jsonl

CLASSES = [("text", "label"), *((sentence(n), "ab"[n % 2]) for n in range(20))]
TAGGED = [tagged(n) for n in range(20)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    write_pretrain_dir(folder / "data")
    write_csv(folder / "sound.csv", CLASSES)
    return folder


def refused(place, out, kind, train, *flags):
    """The one line of the error; nothing is left of the output."""
    code, printed = prepare_task(kind, train, place / "data", out, *flags)
    *_, line = printed.splitlines()
    assert code == 2 and printed.count("error: ") == 1, printed
    assert line.startswith("tupe-prepare-task: error: ") and not out.exists()
    return line


@pytest.mark.parametrize(
    "kind, rows, message",
    [
        ("classification", [], "a.csv is empty"),
        ("classification", [("text", "label")], "a.csv has no rows"),
        ("classification", [("a", "b"), ("x", "y")], "says that it is the text; give --text: 'a'"),
        ("classification", [("text", "b"), ("x", "y")], "that it is the label; give --label: 'te"),
        ("classification", [*CLASSES, ("x",)], "line 22 has 1 column, and line 1 has 2; --skip-ba"),
        ("classification", [*CLASSES, ("x", " ")], "line 22: there is an empty label; --skip-bad"),
        ("classification", [("text", "label"), *[("x", "a")] * 5], "only the label 'a'; --kind cl"),
        ("multilabel", [("text", "label"), *[("x", "")] * 5], "a.csv has no label; --kind multila"),
        ("multilabel", [*CLASSES, ("x", "a,,b")], "line 22: there is an empty label; --skip"),
        ("regression", CLASSES, "line 2: the score 'a' is not a number; --skip-bad"),
        ("regression", [("text", "score"), *[("x", "7")] * 30], "all scores of train are 7; ther"),
        ("tagging", [("tokens", "tags"), ("a b", "O")], "line 2: 2 words have 1 tags; --skip-bad"),
        ("tagging", [("tokens", "tags"), ("", "")], "line 2: the sentence has no words; --skip-b"),
        ("tagging", [("tokens", "tags"), ("a b", "B-x I-y")], "line 2: word 2, 'b', has the tag '"),
        ("tagging", [("tokens", "tags"), ("a", "O")] * 2, "only the label"),
        ("classification", [*CLASSES[:6]], "0.1 of 5 rows puts 0 aside, and validation needs 2"),
    ],
)
def test_rows(kind, rows, message, place, tmp_path):
    path = write_csv(tmp_path / "a.csv", rows)
    if kind == "tagging" and message == "only the label":
        write_csv(path, [("tokens", "tags"), *[("a", "O")] * 30])
    assert message in refused(place, tmp_path / "out", kind, path)


def test_not_bio(place, tmp_path):
    """By the line of the sentence and the word, in every split; unless tags are plain."""
    path = write_conll(tmp_path / "a.conll", [*TAGGED, (["one", "two"], ["O", "I-who"])])
    sound = write_conll(tmp_path / "b.conll", TAGGED)
    line = sum(len(words) + 1 for words, _ in TAGGED) + 1
    message = (
        f"{path}, line {line}: word 2, 'two', has the tag 'I-who' after 'O', which is not BIO "
        "(--tags plain takes tags as they are); --skip-bad-rows leaves such rows out"
    )
    assert message in refused(place, tmp_path / "out", "tagging", path)
    for split in ("--valid", "--test"):
        assert message in refused(place, tmp_path / "out", "tagging", sound, split, path)
    code, printed = prepare_task(
        "tagging", path, place / "data", tmp_path / "plain", "--tags", "plain"
    )
    assert code == 0, printed
    mixed = write_conll(tmp_path / "c.conll", [*TAGGED, (["one"], ["NN"])])
    message = "word 1, 'one', has the tag 'NN' at the beginning, which is not BIO"
    assert message in refused(place, tmp_path / "out", "tagging", mixed, "--tags", "bio")


@pytest.mark.parametrize("split", ["--valid", "--test"])
def test_other_files(split, place, tmp_path):
    path = write_csv(tmp_path / "a.csv", [*CLASSES, ("x", "c")])
    line = refused(place, tmp_path / "out", "classification", place / "sound.csv", split, path)
    where = f"{path}, line 22: the label 'c' does not occur in train and cannot be learned; --skip"
    assert where in line
    write_csv(path, [("words", "label"), ("x", "a")])
    line = refused(place, tmp_path / "out", "classification", place / "sound.csv", split, path)
    assert f"{path} has no column 'text' (--text); the columns are 'words', 'label', or" in line


def test_valid_needs_its_labels(place, tmp_path):
    path = write_csv(tmp_path / "a.csv", [("text",), ("x",)])
    line = refused(place, tmp_path / "out", "classification", place / "sound.csv", "--valid", path)
    assert f"{path} has no column 'label' (--label); the columns are 'text', or 1 to 1" in line


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--text", "3"], "sound.csv has no column '3' (--text); the columns are 'text', 'label'"),
        (["--label", "verdict"], "sound.csv has no column 'verdict' (--label)"),
        (["--text", "label", "--label", "2"], "each can have one role only; give --text, --text2"),
        (["--text2", "label"], "--text2 needs --text"),
        (["--labels", "a,b,c"], "--labels has 'c', which does not occur in"),
        (["--labels", "a"], "line 3: the label 'b' is not one of --labels; --skip-bad-rows"),
        (["--labels", "a,b,a"], "--labels a,b,a: the label 'a' is there twice"),
        (["--labels", ""], "the label '' is empty"),
        (["--valid-share", "1"], "--valid-share (1.0) must be above 0 and below 1"),
        (["--seed", "-1"], "--seed (-1) must be at least 0"),
        (["--valid", "sound.csv", "--valid-share", "0.5"], "--valid-share has no effect with --va"),
        (["--valid", "sound.csv", "--seed", "3"], "--seed has no effect with --valid; drop one"),
        (["--label-separator", ";"], "--label-separator has no effect on --kind classification"),
        (["--tags", "bio"], "--tags has no effect on --kind classification; drop it"),
        (["--scale", "0,5"], "--scale has no effect on --kind classification; drop it"),
        (["--kind", "regression", "--scale", "5,0"], "--scale 5,0 is not two numbers, the lower"),
        (["--kind", "regression", "--scale", "0"], "--scale 0 is not two numbers, the lower one"),
        (["--kind", "regression", "--scale", "0,inf"], "--scale 0,inf is not two numbers"),
        (["--kind", "regression", "--labels", "a"], "--labels has no effect on --kind regression"),
        (["--kind", "multilabel", "--label-separator", ""], "--label-separator is empty"),
        (["--kind", "tagging", "--text", "1", "--text2", "2"], "--text2 has no effect on --kind t"),
        (["--name", "a/b"], "--name 'a/b' cannot be the name of a folder of runs"),
        (["--name", ".."], "--name '..' cannot be the name of a folder of runs"),
        (["--train", "nowhere.csv"], "--train nowhere.csv is not a file"),
        (["--test", "data"], "data is not a file"),
        (["--max-positions", "5"], "--max-positions (5) is below 6"),
        (["--workers", "0"], "--workers (0) must be at least 1"),
        (["--pretrain-dir", "."], "made by tupe-prepare-pretrain"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_flags(flags, message, place, tmp_path):
    flags = [place / word if word in ("sound.csv", "data") else word for word in flags]
    sound = place / "sound.csv"
    assert message in refused(place, tmp_path / "out", "classification", sound, *flags)


def test_a_header_that_is_none(place, tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "x", "label": "a"}] * 3)
    line = refused(place, tmp_path / "out", "classification", path, "--no-header")
    assert "--no-header has no effect: none of the files is .tsv or .csv; drop it" in line


def test_a_folder_of_something_else(place, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    code, printed = prepare_task("classification", place / "sound.csv", place / "data", tmp_path)
    assert code == 2 and f"{tmp_path} contains other files" in printed
    for name in ("a:b", "a,b"):
        line = refused(place, tmp_path / name, "classification", place / "sound.csv")
        assert "at which fairseq splits lists; use another path" in line


@pytest.mark.parametrize("name", ["a.jsonl", "a.conll"])
def test_lists_are_for_tagging(name, place, tmp_path):
    path = tmp_path / name
    if name == "a.jsonl":
        write_jsonl(path, [{"text": ["x"], "label": "a"}] * 3)
    else:
        write_conll(path, TAGGED)
    line = refused(place, tmp_path / "out", "classification", path)
    assert f"{path}, line 1: there is a list where a text is expected; --kind tagging ta" in line


def bad_rows(folder):
    report = json.loads((folder / "report.json").read_text())
    return {split: values["dropped"] for split, values in report["splits"].items()}


def test_bad_rows_are_counted_on_request(place, tmp_path):
    """And the numbers of a test set's rows are those of its file."""
    bad = [("x",), ("x", ""), ("x", "c", "d")]
    train = write_csv(tmp_path / "a.csv", [*CLASSES[:5], *bad, *CLASSES[5:]])
    valid = write_csv(tmp_path / "b.csv", [*CLASSES[:4], *bad, ("x", "c"), *CLASSES[4:]])
    test = tmp_path / "c.csv.gz"
    lines = ["label,text", "a,one", "two", "c,three", "b,four", ""]
    test.write_bytes(gzip.compress("\n".join(lines).encode()))
    out = tmp_path / "out"
    code, printed = prepare_task(
        "classification", train, place / "data", out, "--valid", valid, "--test", test,
        "--skip-bad-rows",
    )  # fmt: skip
    assert code == 0, printed
    others = {"another number of columns": 2, "empty label": 1}
    assert bad_rows(out) == {
        "train": others,
        "valid": {**others, "unknown label": 1},
        "test": {"another number of columns": 1, "unknown label": 1},
    }
    report = json.loads((out / "report.json").read_text())["splits"]
    assert [(values["rows_read"], values["rows"]) for values in report.values()] == [
        (23, 20), (24, 20), (4, 2),
    ]  # fmt: skip
    assert (out / "test.index").read_text().split() == ["0", "3"]
    assert "another number of columns: 2, empty label: 1" in printed


def test_bad_sentences_are_counted_on_request(place, tmp_path):
    records = [{"tokens": words, "tags": tags} for words, tags in TAGGED]
    records[3:3] = [
        {"tokens": ["a", "b"], "tags": ["O"]}, {"tokens": ["a"], "tags": ["I-who"]},
        {"tokens": ["a"], "tags": [""]}, {"tokens": [], "tags": []}, {"tokens": ["a"]},
        {"tokens": ["a", None], "tags": ["O", "O"]},
    ]  # fmt: skip
    path = write_jsonl(tmp_path / "a.jsonl", records)
    out = tmp_path / "out"
    code, printed = prepare_task(
        "tagging", path, place / "data", out, "--skip-bad-rows", "--tags", "bio"
    )
    assert code == 0, printed
    assert bad_rows(out)["train"] == {
        "unequal words and tags": 1, "empty tag": 1, "no words": 1, "not BIO": 1,
        "another number of columns": 1, "neither text nor number": 1,
    }  # fmt: skip


def test_none_is_left(place, tmp_path):
    path = write_csv(tmp_path / "a.csv", [("text", "score"), ("x", "a"), ("y", "")])
    line = refused(place, tmp_path / "out", "regression", path, "--skip-bad-rows")
    assert "none of the 2 rows can be used: not a number: 1, empty label: 1" in line
