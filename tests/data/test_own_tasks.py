"""tupe-prepare-task from your files to what fairseq reads back, and what it refuses."""

import random
import shutil
from collections import Counter

import numpy as np
import pytest
import sentencepiece
from fairseq.data import Dictionary

from helpers.glue_files import ODD_TEXTS, prepare_glue, sentence, write_glue, write_pretrain_dir
from helpers.own_files import prepare_task, tagged, write_conll, write_csv, write_jsonl
from tupe_fairseq.data.indexed import read_sentences
from tupe_fairseq.data.task import Task, label_of, label_symbol, read_report
from tupe_fairseq.data.task_rows import draw_share
from tupe_fairseq.data.text_files import clean_line

LABELS = ("<pad>", "very good", "100%", "n\u00e4h\u00a0er")
CLASSES = [("text", "label"), *((sentence(n), "ab"[n % 2]) for n in range(20))]
TAGGED = [tagged(n) for n in range(20)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    write_pretrain_dir(folder / "data")
    write_csv(folder / "sound.csv", CLASSES)
    return folder


def prepared(kind, train, pretrain_dir, out, *flags):
    """What is printed, the report and the task."""
    code, printed = prepare_task(kind, train, pretrain_dir, out, *flags)
    assert code == 0, printed
    return printed, read_report(str(out)), Task.load(str(out))


def refused(kind, train, pretrain_dir, out, *flags):
    """The one line of the error; nothing is left of the output."""
    code, printed = prepare_task(kind, train, pretrain_dir, out, *flags)
    assert code == 2 and printed.count("error: ") == 1, printed
    assert not out.exists() and not list(out.parent.glob("*.partial"))
    return printed.splitlines()[-1]


def symbols(folder, part, split):
    """The rows of a part of a split as words of fairseq's dictionary, without </s>."""
    dictionary = Dictionary.load(str(folder / part / "dict.txt"))
    prefix = str(folder / part / split)
    rows = read_sentences(prefix)
    assert all(row[-1] == dictionary.eos() for row in rows)
    return [[dictionary[i] for i in row[:-1]] for row in rows]


def texts(folder, split, part="input0"):
    model = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    return [model.decode(row) for row in symbols(folder, part, split)]


def labels(folder, split):
    return [tuple(map(label_of, row)) for row in symbols(folder, "label", split)]


@pytest.fixture(scope="module")
def classified(place):
    """Four classes, one of them rare, and texts that trip up readers of CSV."""
    rows = [
        (ODD_TEXTS[n] if n < len(ODD_TEXTS) else sentence(n), LABELS[n % 3 if n % 10 else 3])
        for n in range(80)
    ]
    rows[7] = ("two\nlines,\tone text", LABELS[1])
    write_csv(place / "a.csv", [("Text", "Label"), *rows])
    write_csv(place / "test.csv", [("Text", "Label"), *((text, "") for text, _ in rows[:9])])
    flags = ["--test", place / "test.csv"]
    out = place / "classes"
    return rows, out, *prepared("classification", place / "a.csv", place / "data", out, *flags)


def test_classes_of_any_spelling_and_a_stratified_share(classified):
    rows, folder, printed, report, task = classified
    assert task == Task(
        "classes", "classification", tuple(sorted(LABELS)), 1, ("train", "valid", "test"),
        ("accuracy", "macro_f1"), "accuracy",
    )  # fmt: skip
    assert all(label_of(label_symbol(label)) == label for label in LABELS)
    treat = clean_line
    expected = [(treat(text.replace("\n", " ")), label) for text, label in rows]
    found = {
        split: [(text, *label) for text, label in zip(texts(folder, split), labels(folder, split))]
        for split in ("train", "valid")
    }
    assert Counter(sum(found.values(), [])) == Counter(expected)
    for split, pairs in found.items():  # each keeps the order of the file
        places = iter(expected)
        assert all(pair in places for pair in pairs)
        counts = Counter(label for _, label in pairs)
        assert report["splits"][split]["labels"] == dict(counts)
        assert report["splits"][split]["rows_read"] == len(pairs)
        assert f"very good: {counts['very good']}" in printed
    assert len(found["valid"]) == 8
    of_all, of_valid = (Counter(x[1] for x in part) for part in (expected, found["valid"]))
    assert all(abs(of_valid[label] - of_all[label] / 10) < 1 for label in LABELS)
    assert "a.csv: guessed --text 'Text', --label 'Label'" in printed
    assert report["columns"] == {"text": "Text", "text2": None, "label": "Label"}
    assert "test.csv has no labels in column 'Label'" in printed
    assert texts(folder, "test") == [text for text, _ in expected[:9]]
    assert (folder / "test.index").read_text() == "".join(f"{n}\n" for n in range(9))
    assert not (folder / "label" / "test.bin").exists()
    assert sum(values["warnings"].get("empty text", 0) for values in report["splits"].values()) == 2


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_again_it_is_finished_mended_or_refused(classified, place):
    folder = classified[1]
    command = ["classification", place / "a.csv", place / "data", folder]
    flags = ["--test", place / "test.csv"]
    before, times = contents(folder), {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert f"{folder} is already finished; skipped" in prepared(*command, *flags)[0]
    code, printed = prepare_task(*command, *flags, "--seed", 2)
    assert code == 2 and "made with other settings: seed was 1 and is now 2" in printed
    code, printed = prepare_task(*command, "--test", place / "a.csv")
    assert code == 2 and "made with other settings: files was" in printed
    assert times == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    # a folder that lacks files is not finished; files of others stay
    shutil.rmtree(folder / "input0")
    (folder / "label" / "train.bin").unlink()
    (folder / "notes.txt").write_text("mine")
    (place / "classes.partial").mkdir()  # of a run that was killed
    assert "skipped" not in prepared(*command, *flags)[0]
    (folder / "notes.txt").unlink()
    assert contents(folder) == before and not (place / "classes.partial").exists()


def test_the_same_data_as_of_glue(place, tmp_path):
    """SST-2 with other names of columns and labels; STS-B with its scale."""
    official = tmp_path / "official"
    found = write_glue(official, ["SST-2", "STS-B"])
    assert prepare_glue(official, "SST-2,STS-B", place / "data", tmp_path / "glue")[0] == 0
    names = {"0": "good", "1": "bad"}
    for split, rows in found["SST-2"].items():
        cells = [(names[a], text) for a, (text,) in zip(rows.labels, rows.texts)] or [
            ("", text) for (text,) in rows.texts
        ]
        write_csv(tmp_path / f"{split}.csv", [("verdict", "review"), *cells])
    for split, rows in found["STS-B"].items():
        scores = list(map(float, rows.labels)) or [None] * len(rows.texts)
        records = [
            {"a": a, "b": b, **({} if score is None else {"y": score})}
            for (a, b), score in zip(rows.texts, scores)
        ]
        write_jsonl(tmp_path / f"{split}.jsonl", records)
    ours = {
        "SST-2": ("classification", "csv", ["--text", "review", "--label", "verdict",
                                            "--labels", "good,bad"]),
        "STS-B": ("regression", "jsonl", ["--text", 1, "--text2", "b", "--label", "y",
                                          "--scale", "0,5"]),
    }  # fmt: skip
    for name, (kind, ending, flags) in ours.items():
        out, glue = tmp_path / name, tmp_path / "glue" / name
        for split in ("valid", "test"):
            flags += [f"--{split}", tmp_path / f"{split}.{ending}"]
        prepared(kind, tmp_path / f"train.{ending}", place / "data", out, *flags)
        files = {path.relative_to(glue) for path in glue.rglob("*") if path.is_file()}
        assert files == {path.relative_to(out) for path in out.rglob("*") if path.is_file()}
        other = {file for file in files if (out / file).read_bytes() != (glue / file).read_bytes()}
        labels_differ = {"label/dict.txt"} if name == "SST-2" else set()
        assert set(map(str, other)) == {"report.json"} | labels_differ
        report, theirs = (read_report(str(folder)) for folder in (out, glue))
        for split, values in theirs["splits"].items():
            counts = report["splits"][split].pop("labels")
            assert list(counts.values()) == list(values.pop("labels").values())
            assert report["splits"][split] == values


def test_any_number_of_labels(place, tmp_path):
    rows = [(sentence(n), [["a b", "c"], [], ["c"], ["<s>", "a b", "c"]][n % 4]) for n in range(40)]
    write_jsonl(tmp_path / "a.jsonl", [{"text": text, "labels": found} for text, found in rows])
    cells = [(text, " | ".join(found)) for text, found in rows]
    write_csv(tmp_path / "b.csv", [("text", "labels"), *cells])
    for name, flags in (("a.jsonl", []), ("b.csv", ["--label-separator", "|"])):
        out = tmp_path / name[0]
        _, report, task = prepared("multilabel", tmp_path / name, place / "data", out, *flags)
        assert task.labels == ("<s>", "a b", "c") and task.selection == "micro_f1"
        found = []
        for split in ("train", "valid"):
            found += zip(texts(out, split), labels(out, split))
        assert sorted(found) == sorted((text, tuple(of_text)) for text, of_text in rows)
        # the share of each set of labels
        assert sorted(map(len, labels(out, "valid"))) == [0, 1, 2, 3]
        assert report["splits"]["train"]["labels"] == {"<s>": 9, "a b": 18, "c": 27}


def test_tags_stand_on_first_tokens(place, tmp_path):
    sentences = [tagged(number) for number in range(30)]
    sentences[4] = (["The cat", "\u200b", "sees"], ["B-who", "O", "<pad>"])
    write_jsonl(tmp_path / "a.jsonl", [{"tokens": a, "ner_tags": b} for a, b in sentences])
    lines = [" ".join(words) for words, _ in sentences[20:]]
    write_csv(tmp_path / "c.csv", [("tokens",), *((line,) for line in lines), ("",)])
    out = tmp_path / "out"
    _, report, task = prepared(
        "tagging", tmp_path / "a.jsonl", place / "data", out, "--test", tmp_path / "c.csv"
    )
    assert task.labels == ("<pad>", "B-who", "I-who", "O")  # <pad> is none of BIO's
    assert task.metrics == ("accuracy",)
    found = []
    for split in ("train", "valid"):
        for row, tags in zip(symbols(out, "input0", split), symbols(out, "label", split)):
            assert len(row) == len(tags) and tags[0] != "<pad>"
            starts = [place for place, tag in enumerate(tags) if tag != "<pad>"]
            words = ["".join(row[a:b]) for a, b in zip(starts, [*starts[1:], None])]
            words = [word.replace("\u2581", " ").strip() for word in words]
            found.append((words, [label_of(tag) for tag in tags if tag != "<pad>"]))
    sentences[4] = (["The cat", "<unk>", "sees"], ["B-who", "O", "<pad>"])
    assert sorted(found) == sorted(sentences)
    warned = report["splits"]["train"]["warnings"]
    assert warned == {"words apart have other tokens than in a line": 1}
    assert report["splits"]["test"]["warnings"] == {"empty text": 1}
    assert report["splits"]["test"]["rows"] == 11 and report["splits"]["test"]["labels"] == {}
    assert texts(out, "test") == [*lines, ""]
    # where words begin without tags
    starts = [row.count("<unk>") for row in symbols(out, "label", "test")]
    assert starts == [len(words) for words, _ in sentences[20:]] + [0]


def test_bio(place, tmp_path):
    write_conll(tmp_path / "a.conll", TAGGED)
    write_conll(tmp_path / "b.conll", [tagged(number) for number in range(20, 26)])
    out, other = tmp_path / "out", tmp_path / "b.conll"
    flags = ["--valid", other, "--test", other, "--labels", "O,B-who,I-who", "--max-positions", 12]
    printed, report, task = prepared("tagging", tmp_path / "a.conll", place / "data", out, *flags)
    assert "the tags are BIO and checked as such" in printed
    assert task.labels == ("O", "B-who", "I-who") and task.selection == "entity_f1"
    # a test set with labels has them, and the numbers of its rows
    assert labels(out, "test") == labels(out, "valid")
    assert (out / "test.index").read_text().split() == list("012345")
    lengths = [len(row) for row in symbols(out, "input0", "train")]
    assert report["splits"]["train"]["too_long"] == sum(length + 2 > 12 for length in lengths) > 0
    bad = write_conll(tmp_path / "c.conll", [*TAGGED, (["one", "two"], ["O", "I-who"])])
    line = sum(len(words) + 1 for words, _ in TAGGED) + 1
    message = f"{bad}, line {line} has the tag 'I-who' of 'two' after 'O', which is not BIO"
    assert message in refused("tagging", bad, place / "data", tmp_path / "bad")
    flags = ["--valid", bad]
    train = tmp_path / "a.conll"
    assert message in refused("tagging", train, place / "data", tmp_path / "bad", *flags)
    prepared("tagging", bad, place / "data", tmp_path / "plain", "--tags", "plain")


def test_scores(place, tmp_path):
    lines = [(sentence(n), n / 4 - 1) for n in range(24)]
    write_csv(tmp_path / "a.csv", [("text", "score"), *lines])
    write_csv(tmp_path / "b.csv", [("text", "score"), ("one", -3), ("two", 2), ("three", 99)])
    command = ["regression", tmp_path / "a.csv", place / "data"]
    printed, report, task = prepared(*command, tmp_path / "a", "--valid", tmp_path / "b.csv")
    assert "the scale is -1 to 4.75, as in train (--scale)" in printed
    assert (task.scale, task.num_classes) == ((-1.0, 4.75), 1)
    found = np.loadtxt(tmp_path / "a" / "label" / "valid.label")
    # as they are, not cut to the scale; the same two operations on float64
    assert found.tolist() == [(score + 1) / 5.75 for score in (-3, 2, 99)]
    assert report["splits"]["valid"]["warnings"] == {"score outside -1 to 4.75": 2}
    assert sum(report["splits"]["train"]["labels"].values()) == 24
    flags = ["--scale=-1,7", "--valid-share", 0.25, "--name", "mine"]
    _, report, task = prepared(*command, tmp_path / "b", *flags)
    assert (task.name, task.scale) == ("mine", (-1.0, 7.0))
    assert report["splits"]["valid"]["rows"] == 6
    line = refused(*command, tmp_path / "c", "--scale", "0,5")
    assert "a.csv, line 2 has the score '-1.0', outside --scale 0,5; --skip-bad-rows" in line


@pytest.mark.parametrize(
    "kind, rows, message",
    [
        ("classification", [("a", "b"), ("x", "y")], "that it is the text; give --text: 'a'"),
        ("classification", [*CLASSES, ("x",)], "line 22 has 1 fields, and the first row has 2; --"),
        ("classification", [*CLASSES, ("x", " ")], "line 22 has an empty label; --skip-bad-rows"),
        ("classification", [("text", "label"), *zip("a" * 300, range(300))], "300 different"),
        ("classification", [*CLASSES[:6]], "0.1 of 5 rows holds out 0; validation needs 2"),
        ("regression", CLASSES, "line 2 has the score 'a', not a number; --skip-bad"),
        ("regression", [("text", "score"), *[("x", "7")] * 30], "all scores of train are 7; ther"),
        ("tagging", [("tokens", "tags"), ("a b", "O")], "line 2 has 1 tags for 2 words"),
    ],
)  # fmt: skip
def test_wrong_rows(kind, rows, message, place, tmp_path):
    path = write_csv(tmp_path / "a.csv", rows)
    assert message in refused(kind, path, place / "data", tmp_path / "out")


def test_wrong_files(place, tmp_path):
    def line(content, *flags, name="a.csv", kind="classification"):
        path = tmp_path / name
        path.write_bytes(content)
        train = [path] if not flags else [place / "sound.csv"]
        flags = [path if word == "FILE" else word for word in flags]
        return refused(kind, *train, place / "data", tmp_path / "out", *flags)

    sound = (place / "sound.csv").read_bytes()
    assert "a.csv, line 22 has the label 'c', not one of 'a', 'b'; --skip-bad-rows" in line(
        sound + b"x,c\n", "--valid", "FILE"
    )
    assert "line 2 has the columns 'words', 'label' instead of 'text', 'label'" in line(
        b"words,label\nx,a\n", "--valid", "FILE"
    )
    assert "a.csv, line 2 is not UTF-8; convert the file first" in line(b"text,label\n\xe9,a\n")
    # JSON lines under another name, and lists where texts are expected
    rows = b'{"text": "x", "label": "a"}\n' * 3
    assert "no column whose name says that it is the text" in line(rows)
    assert "no column whose name says that it is the label" in line(rows, name="a.txt")
    rows = b'{"text": ["x"], "label": "a"}\n' * 3
    assert "line 1 has a list for a text, which --kind tagging takes" in line(rows, name="c.jsonl")


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--text", "3"], "sound.csv has no column '3' (--text); the columns are 'text', 'label'"),
        (["--labels", "a,b,c"], "--labels has 'c', which does not occur in"),
        (["--labels", "a,b,a"], "argument --labels: 'a,b,a' has 'a' twice, or an empty label"),
        (["--valid", "sound.csv", "--seed", "3"], "--seed has no effect with --valid; drop one"),
        (["--tags", "bio"], "--tags has no effect on --kind classification; drop it"),
        (["--kind", "regression", "--scale", "5,0"], "'5,0' is not two numbers, the lower first"),
        (["--name", "a/b"], "--name 'a/b' cannot be the name of a folder of runs"),
        (["--train", __file__], "is no file of rows: its name should end in .tsv, .csv"),
    ],
)
def test_wrong_flags(flags, message, place, tmp_path):
    flags = [place / word if word == "sound.csv" else word for word in flags]
    sound, out = place / "sound.csv", tmp_path / "out"
    assert message in refused("classification", sound, place / "data", out, *flags)


def test_bad_rows_are_counted_on_request(place, tmp_path):
    """And the numbers of a test set's rows are those of its file."""
    bad = [("x",), ("x", ""), ("x", "c", "d")]
    train = write_csv(tmp_path / "a.csv", [*CLASSES[:5], *bad, *CLASSES[5:]])
    valid = write_csv(tmp_path / "b.csv", [*CLASSES[:4], *bad, ("x", "c"), *CLASSES[4:]])
    test = tmp_path / "c.csv"
    test.write_text("label,text\na,one\ntwo\nc,three\nb,four\n")
    flags = ["--valid", valid, "--test", test, "--skip-bad-rows"]
    out = tmp_path / "out"
    printed, report, _ = prepared("classification", train, place / "data", out, *flags)
    others = {"other columns": 2, "empty label": 1}
    assert {split: values["dropped"] for split, values in report["splits"].items()} == {
        "train": others,
        "valid": {**others, "unknown label": 1},
        "test": {"other columns": 1, "unknown label": 1},
    }
    counts = [(values["rows_read"], values["rows"]) for values in report["splits"].values()]
    assert counts == [(23, 20), (24, 20), (4, 2)]
    assert (out / "test.index").read_text().split() == ["0", "3"]
    assert "other columns: 2, empty label: 1" in printed
    records = [{"tokens": words, "tags": tags} for words, tags in TAGGED]
    records[3:3] = [
        {"tokens": ["a", "b"], "tags": ["O"]}, {"tokens": ["a"], "tags": ["I-who"]},
        {"tokens": ["a"], "tags": [""]}, {"tokens": [], "tags": []}, {"tokens": ["a"]},
        {"tokens": ["a", None], "tags": ["O", "O"]},
    ]  # fmt: skip
    path = write_jsonl(tmp_path / "a.jsonl", records)
    flags = ["--skip-bad-rows", "--tags", "bio"]
    _, report, _ = prepared("tagging", path, place / "data", tmp_path / "tags", *flags)
    assert report["splits"]["train"]["dropped"] == {
        "unequal words and tags": 1, "empty label": 1, "no words": 1, "not BIO": 1,
        "other columns": 1, "neither text nor number": 1,
    }  # fmt: skip
    path = write_csv(tmp_path / "d.csv", [("text", "score"), ("x", "a"), ("y", "")])
    line = refused("regression", path, place / "data", tmp_path / "none", "--skip-bad-rows")
    assert "d.csv: no row can be used (not a number: 1, empty label: 1)" in line


def test_each_class_has_its_share():
    of_rows = [(f"class{n}",) for n, count in enumerate((400, 90, 11)) for _ in range(count)]
    drawn = draw_share(of_rows, of_rows, 0.25, 1)
    counts, of_drawn = Counter(of_rows), Counter(of_rows[row] for row in drawn)
    assert len(drawn) == round(0.25 * len(of_rows))
    assert all(abs(of_drawn[label] - 0.25 * counts[label]) < 1 for label in counts)


def test_the_draw_is_random_and_repeatable():
    of_rows = [("x",)] * 200
    first = draw_share(of_rows, of_rows, 0.1, 1)
    assert sorted(first)[:4] == [0, 7, 16, 24] and max(first) > 150
    assert first == draw_share(of_rows, of_rows, 0.1, 1) != draw_share(of_rows, of_rows, 0.1, 2)


@pytest.mark.parametrize("seed", range(5))
def test_no_label_is_held_out_as_a_whole(seed):
    draw = random.Random(seed)
    of_rows = [tuple(draw.sample("abcdefghijkl", draw.randint(0, 4))) for _ in range(40)]
    of_rows += [("once",), ("twice", "a"), ("twice",)]
    for strata in (of_rows, [()] * len(of_rows)):
        drawn = draw_share(strata, of_rows, 0.6, seed)
        left = {x for row, label in enumerate(of_rows) if row not in drawn for x in label}
        assert left == {x for label in of_rows for x in label}
        assert len(drawn) > 10
