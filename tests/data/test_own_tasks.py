"""tupe-prepare-task from your files to what fairseq reads back, and what it refuses."""

import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from urllib.parse import unquote

import numpy as np
import pytest
import sentencepiece
from fairseq.data import Dictionary

from helpers.glue_files import ODD_TEXTS, sentence
from helpers.models import write_model
from helpers.rows import write_csv, write_json_lines
from helpers.running import BIN, call_program, run_process
from tupe_fairseq import prepare
from tupe_fairseq.data.dictionary import REPORT
from tupe_fairseq.data.indexed import read_sentences
from tupe_fairseq.data.text_files import clean_line
from tupe_fairseq.files import read_json, write_json
from tupe_fairseq.kinds import KINDS
from tupe_fairseq.labelled.held_out import draw_share
from tupe_fairseq.labelled.task import Task
from tupe_fairseq.labelled.task_rows import read_label

LABELS = ("<pad>", "very good", "100%", "n\u00e4h\u00a0er")


def tagged(number):
    """The words of a sentence, and BIO tags: the subject is an entity of two words."""
    words = sentence(number).split()
    return words, ["B-who", "I-who", *["O"] * (len(words) - 2)]


def write_conll(path, sentences):
    blocks = ("".join(f"{word}\t{tag}\n" for word, tag in zip(*pair)) for pair in sentences)
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def prepare_task(kind, train, pretrain_dir, out, *flags):
    words = ["--kind", kind, "--train", train, "--vocabulary", pretrain_dir]
    return call_program("prepare-task", [*words, "--output-dir", out, "--workers", 1, *flags])


def prepared(*command):
    """What is printed, the report and the task."""
    code, printed = prepare_task(*command)
    assert code == 0, printed
    out = str(command[3])
    return printed, read_json(os.path.join(out, REPORT)), Task.load(out)


def refused(kind, train, pretrain_dir, out, *flags):
    """The line of the error; the command must leave no output behind."""
    code, printed = prepare_task(kind, train, pretrain_dir, out, *flags)
    assert code == 2 and printed.count("error: ") == 1, printed
    assert not out.exists()
    return printed.splitlines()[-1]


def symbols(folder, part, split):
    """The rows of a split's part (input0, label, ...) as dictionary words, without </s>."""
    dictionary = Dictionary.load(str(folder / part / "dict.txt"))
    prefix = str(folder / part / split)
    rows = read_sentences(prefix)
    assert all(row[-1] == dictionary.eos() for row in rows)
    return [[dictionary[i] for i in row[:-1]] for row in rows]


def texts(folder, split, part="input0"):
    model = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    return [model.decode(row) for row in symbols(folder, part, split)]


def labels(folder, split):
    return [tuple(map(unquote, row)) for row in symbols(folder, "label", split)]


@pytest.fixture(scope="module")
def classified(vocabulary, tmp_path_factory):
    """Four classes, one of them rare, and texts that trip up readers of CSV."""
    rows = [
        (ODD_TEXTS[n] if n < len(ODD_TEXTS) else sentence(n), LABELS[n % 3 if n % 10 else 3])
        for n in range(80)
    ]
    rows[7] = ("two\nlines,\tone text", LABELS[1])
    place = tmp_path_factory.mktemp("classified")
    train = write_csv(place / "a.csv", [("Text", "Label"), *rows])
    test = write_csv(place / "test.csv", [("Text", "Label"), *((text, "") for text, _ in rows[:9])])
    return rows, ("classification", train, vocabulary, place / "classes", "--test", test)


def test_classes_of_any_spelling_and_a_stratified_share(classified):
    rows, command = classified
    folder = command[3]
    printed, report, task = prepared(*command)
    assert "a.csv: guessed --text 'Text', --label 'Label'" in printed
    assert "tupe-finetune checkpoints/checkpoint_best.pt --data " in printed
    assert task == Task(
        "classes", "classification", tuple(sorted(LABELS)), 1, ("train", "valid", "test"),
        ("accuracy", "macro_f1"), "accuracy",
    )  # fmt: skip
    expected = [(clean_line(text.replace("\n", " ")), label) for text, label in rows]
    found = {
        split: [(text, *label) for text, label in zip(texts(folder, split), labels(folder, split))]
        for split in ("train", "valid")
    }
    assert Counter(sum(found.values(), [])) == Counter(expected) and len(found["valid"]) == 8
    of_all = Counter(label for _, label in rows)
    for split, pairs in found.items():  # each split keeps the order of the file
        places = iter(expected)
        assert all(pair in places for pair in pairs)
        counts = Counter(label for _, label in pairs)
        assert report["splits"][split]["labels"] == dict(counts)
        assert report["splits"][split]["rows_read"] == len(pairs)
        assert all(abs(counts[x] - of_all[x] * len(pairs) / 80) < 1 for x in LABELS)
    assert texts(folder, "test") == [text for text, _ in expected[:9]]
    assert (folder / "test.index").read_text() == "".join(f"{n}\n" for n in range(9))
    assert not (folder / "label" / "test.bin").exists()


def contents(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_several_processes_write_the_same_folder(vocabulary, tmp_path, monkeypatch):
    monkeypatch.setattr("tupe_fairseq.labelled.task_folder._BATCH", 3)
    train = write_conll(tmp_path / "a.conll", map(tagged, range(20)))
    folders = [tmp_path / workers / "tags" for workers in ("1", "2")]
    for folder in folders:
        prepared("tagging", train, vocabulary, folder, "--workers", folder.parent.name)
    alone, shared = map(contents, folders)
    assert {x for x in alone if alone[x] != shared.pop(x)} <= {"report.json"} and not shared


def test_again_it_is_finished_mended_or_refused(classified):
    command = classified[1]
    folder = command[3]
    prepared(*command)
    before = contents(folder)
    printed = prepared(*command)[0]
    assert f"{folder} is already finished; skipped" in printed and "was made by" not in printed
    report = read_json(str(folder / "report.json"))
    del report["versions"]
    write_json(str(folder / "report.json"), report)
    assert f"{folder} was made by an earlier version" in prepared(*command)[0]
    (folder / "report.json").write_bytes(before["report.json"])
    for more, setting in (
        (["--seed", 2], "seed was 1 and is now 2"),
        (["--test", command[1]], f"{command[1]} has changed since"),
    ):
        code, printed = prepare_task(*command, *more)
        assert code == 2 and f"made with other settings: {setting}" in printed
    assert contents(folder) == before
    # a row is mended
    rows = command[1].read_bytes()
    command[1].write_bytes(rows.replace(b"0", b"1", 1))
    code, printed = prepare_task(*command)
    assert code == 2 and f"{command[1]} has changed since; give another folder, or --ov" in printed
    assert "skipped" not in prepared(*command, "--overwrite")[0]
    assert contents(folder) != before
    command[1].write_bytes(rows)
    prepared(*command, "--overwrite")
    assert contents(folder) == before
    # a folder with missing files is not finished; foreign files stay
    shutil.rmtree(folder / "input0")
    (folder / "notes.txt").write_text("mine")
    assert "skipped" not in prepared(*command)[0]
    (folder / "notes.txt").unlink()
    assert contents(folder) == before


def test_a_second_command_in_a_folder_is_told_who_is_at_work(vocabulary, tmp_path):
    """The first command finishes. One that is killed does not block the next."""
    train = write_csv(
        tmp_path / "a.csv", [("text", "label"), *((sentence(n), n % 2) for n in range(30000))]
    )
    out, mine = tmp_path / "out", tmp_path / "out.partial" / "mine.txt"
    command = ("classification", train, vocabulary, out)
    words = [BIN / "tupe-prepare-task", "--kind", "classification", "--train", train,
             "--vocabulary", vocabulary, "--output-dir", out, "--workers", "1"]  # fmt: skip
    mine.parent.mkdir()
    mine.touch()

    def start():
        process = subprocess.Popen(list(map(str, words)), stderr=subprocess.DEVNULL)
        owner = out / ".tupe-at-work"
        while not owner.exists() or f"process {process.pid} " not in owner.read_text():
            assert process.poll() is None
            time.sleep(0.01)
        return process

    first = start()
    while not list(out.glob(".*/input0/*")):
        time.sleep(0.01)
    first.kill()
    first.wait()
    assert list(out.glob(".*/input0/*"))
    first = start()
    code, printed = prepare_task(*command)
    assert code == 2, printed
    assert f"tupe-prepare-task (process {first.pid} on " in printed.splitlines()[-1]
    assert first.wait() == 0
    assert "is already finished" in prepared(*command)[0]
    assert not list(out.glob(".*")) and mine.exists()


MOUNT = """set -e
mount -t tmpfs parent {place}
for out in task data longer; do mkdir {place}/$out; mount -t tmpfs out {place}/$out; done
mount -o remount,ro {place}
{python} - <<'END'
from tupe_fairseq.cli.main import run
for command in (
    "prepare-task --kind classification --train {train} --vocabulary {data} --workers 1 "
    "--output-dir {place}/task",
    "prepare-pretrain --input {train} --text-field text --vocabulary {data} --workers 1 "
    "--output-dir {place}/data",
    "extend {model} --method tile --max-positions 99 --data {data} --output-dir {place}/longer",
):
    assert run(command.split()[0], command.split()[1:]) == 0
END
ls -A {place}/*
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts as Linux does")
def test_a_mounted_volume_below_a_parent_that_is_read_only(vocabulary, tmp_path):
    """In a namespace of its own, so that nothing stays mounted."""
    if subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "x", tmp_path]).returncode:
        pytest.skip("this machine lets nobody mount")
    train = write_csv(
        tmp_path / "a.csv", [("text", "label"), *((sentence(n), n % 2) for n in range(99))]
    )
    model = write_model(tmp_path / "model", vocabulary)
    (tmp_path / "mounted").mkdir()
    paths = {"place": tmp_path / "mounted", "train": train, "data": vocabulary, "model": model}
    script = MOUNT.format(python=sys.executable, **paths)
    printed = run_process("unshare", "-rm", "sh", "-c", script).stdout
    listed = printed.split("/mounted/")[-3:]
    for files, name in zip(listed, ("train.bin", "model.pt", "report.json")):
        assert name in files.split() and not any(file[0] == "." for file in files.split()), printed


def test_any_number_of_labels(vocabulary, tmp_path):
    rows = [(sentence(n), [["a b", "c"], [], ["c"], ["<s>", "a b", "c"]][n % 4]) for n in range(40)]
    write_json_lines(
        tmp_path / "a.jsonl", [{"text": text, "labels": found} for text, found in rows]
    )
    cells = [(text, " | ".join(found)) for text, found in rows]
    write_csv(tmp_path / "b.csv", [("text", "labels"), *cells])
    for name, flags in (("a.jsonl", []), ("b.csv", ["--label-separator", "|"])):
        out = tmp_path / name[0]
        _, report, task = prepared("multilabel", tmp_path / name, vocabulary, out, *flags)
        assert task.labels == ("<s>", "a b", "c") and task.selection == "micro_f1"
        found = []
        for split in ("train", "valid"):
            found += zip(texts(out, split), labels(out, split))
        assert sorted(found) == sorted((text, tuple(of_text)) for text, of_text in rows)
        # valid has its share of each set of labels
        assert sorted(map(len, labels(out, "valid"))) == [0, 1, 2, 3]
        assert report["splits"]["train"]["labels"] == {"<s>": 9, "a b": 18, "c": 27}


def test_tags_stand_on_first_tokens(vocabulary, tmp_path):
    sentences = [tagged(number) for number in range(30)]
    sentences[4] = (["The cat", "\u200b", "sees"], ["B-who", "O", "<pad>"])
    write_json_lines(tmp_path / "a.jsonl", [{"tokens": a, "ner_tags": b} for a, b in sentences])
    lines = [" ".join(words) for words, _ in sentences[20:]]
    write_csv(tmp_path / "c.csv", [("tokens",), *((line,) for line in lines), ("",)])
    out = tmp_path / "out"
    _, report, task = prepared(
        "tagging", tmp_path / "a.jsonl", vocabulary, out, "--test", tmp_path / "c.csv"
    )
    assert task.labels == ("<pad>", "B-who", "I-who", "O")  # so it is not BIO
    assert task.metrics == ("accuracy",)
    found = []
    for split in ("train", "valid"):
        for row, tags in zip(symbols(out, "input0", split), symbols(out, "label", split)):
            assert len(row) == len(tags) and tags[0] != "<pad>"
            starts = [place for place, tag in enumerate(tags) if tag != "<pad>"]
            words = ["".join(row[a:b]) for a, b in zip(starts, [*starts[1:], None])]
            words = [word.replace("\u2581", " ").strip() for word in words]
            found.append((words, [unquote(tag) for tag in tags if tag != "<pad>"]))
    sentences[4] = (["The cat", "<unk>", "sees"], ["B-who", "O", "<pad>"])
    assert sorted(found) == sorted(sentences)
    leaks = sum(row >= 20 for row in rows_in(out)["train"])
    assert report["splits"]["test"]["warnings"] == {"empty text": 1, "also in train": leaks}
    assert report["splits"]["test"]["rows"] == 11 and report["splits"]["test"]["labels"] == {}
    assert texts(out, "test") == [*lines, ""]
    # without tags, the test set still shows where words begin
    starts = [row.count("<unk>") for row in symbols(out, "label", "test")]
    assert starts == [len(words) for words, _ in sentences[20:]] + [0]


def test_bio(vocabulary, tmp_path):
    write_conll(tmp_path / "a.conll", map(tagged, range(20)))
    write_conll(tmp_path / "b.conll", map(tagged, range(20, 26)))
    out, other = tmp_path / "out", tmp_path / "b.conll"
    data = shutil.copytree(vocabulary, tmp_path / "data")
    write_json(str(data / "vocabulary.json"), {"kind": "sentencepiece", "max_positions": 12})
    flags = ["--valid", other, "--test", other, "--labels", "O,B-who,I-who"]
    _, report, task = prepared("tagging", tmp_path / "a.conll", data, out, *flags)
    record = {"kind": "sentencepiece", "clean": False, "lowercase": False, "max_positions": 12}
    assert read_json(out / "vocabulary.json") == record
    assert task.labels == ("O", "B-who", "I-who") and task.selection == "entity_f1"
    # a labelled test set keeps its labels, and the numbers of its rows
    assert labels(out, "test") == labels(out, "valid")
    assert (out / "test.index").read_text().split() == list("012345")
    lengths = [len(row) for row in symbols(out, "input0", "train")]
    assert report["splits"]["train"]["too_long"] == sum(length + 2 > 12 for length in lengths) > 0


def test_scores(vocabulary, tmp_path):
    lines = [(sentence(n), n / 4 - 1) for n in range(24)]
    write_csv(tmp_path / "a.csv", [("text", "score"), *lines])
    write_csv(tmp_path / "b.csv", [("text", "score"), ("one", -3), ("two", 2), ("three", 99)])
    command = ["regression", tmp_path / "a.csv", vocabulary]
    _, report, task = prepared(*command, tmp_path / "a", "--valid", tmp_path / "b.csv")
    assert (task.scale, task.num_classes) == ((-1.0, 4.75), 1)
    found = np.loadtxt(tmp_path / "a" / "label" / "valid.label")
    # not clipped to the scale; equal, because these are the same two operations on float64
    assert found.tolist() == [(score + 1) / 5.75 for score in (-3, 2, 99)]
    assert report["splits"]["valid"]["warnings"] == {"score outside -1 to 4.75": 2}


def test_bad_rows_are_counted_on_request(vocabulary, tmp_path):
    """The row numbers of a test set are those of its file."""
    rows = [("text", "label"), *((sentence(n), "ab"[n % 2]) for n in range(20))]
    bad = [("x",), ("x", ""), ("x", "c", "d")]
    train = write_csv(tmp_path / "a.csv", [*rows[:5], *bad, *rows[5:]])
    valid = write_csv(tmp_path / "b.csv", [*rows[:4], *bad, ("x", "c"), *rows[4:]])
    test = write_csv(tmp_path / "c.csv", [("text", "label"), ("x", "a"), ("y",), ("z", "b")])
    out = tmp_path / "out"
    command = ["classification", train, vocabulary, out, "--valid", valid, "--test", test]
    assert "a.csv, line 6 (row 4) has " in refused(*command)
    splits = prepared(*command, "--skip-bad-rows")[1]["splits"]
    index = [int(number) for number in (out / "valid.index").read_text().split()]
    assert index == [*range(3), *range(7, 24)]
    others = {"other columns": 2, "empty label": 1}
    assert splits["train"]["dropped"] == others
    assert splits["valid"]["dropped"] == {**others, "unknown label": 1}
    assert splits["test"]["dropped"] == {"other columns": 1}
    counts = [(values["rows_read"], values["rows"]) for values in splits.values()]
    assert counts == [(23, 20), (24, 20), (3, 2)]
    assert (out / "test.index").read_text().split() == ["0", "2"]
    # also if the first row has no label
    records = [{"text": "x"}, *({"text": sentence(n), "label": "ab"[n % 2]} for n in range(20))]
    train = write_json_lines(tmp_path / "a.jsonl", records)
    command = ["classification", train, vocabulary, tmp_path / "json", "--test", train]
    assert "line 1 (row 0) has the columns 'text' instead of 'text', 'label'" in refused(*command)
    splits = prepared(*command, "--skip-bad-rows")[1]["splits"]
    assert sum(splits["test"]["labels"].values()) == splits["test"]["rows"] == 20


def rows_of(*labels, times=10, text="a cat and {}"):
    """.csv with a text for each label."""
    rows = (f"{text.format(n)},{label}\n" for n, label in enumerate(labels * times))
    return "text,label\n" + "".join(rows)


def scheme_of(first, last, single):
    """.conll with an entity of two words and one of one word."""
    return f"X {first}-a\nY {last}-a\nis O\n\nX {single}-b\nis O\n\n" * 10


AS_TEXT = "has a list as text, "


@pytest.mark.parametrize(
    "kind, name, content, expected",
    [
        # lists written as text
        ("multilabel", "a.csv", "text,label\none,\"['a', 'b']\"\n", AS_TEXT),
        ("classification", "a.csv", 'text,label\none,"{a,b}"\n', AS_TEXT),
        ("classification", "a.csv", "text,label\n\"['a', 'b']\",a\n", AS_TEXT),
        ("classification", "a.csv", rows_of("[a b]", "b", text="[a] {}"), "classes: '[a b]', 'b'"),
        ("multilabel", "a.jsonl", '{"text": "a", "label": [0, 1, 0]}', "has the label '0' twice"),
        # not a number
        ("regression", "a.csv", rows_of("1", "1_5"), "(row 1) has the score '1_5', not a number"),
        ("classification", "a.jsonl", '{"text": "one", "label": NaN}', "(row 0) has NaN in column"),
        # classes
        ("classification", "a.csv", rows_of("a", "b").replace(",", ";"), "the classes: 'a', 'b'\n"),
        ("classification", "a.csv", rows_of("\u00e9", "e\u0301", "b"), "classes: 'b', '\u00e9'\n"),
        ("classification", "a.csv", rows_of("a", "NaN"), "(row 1) has an empty label, 'NaN'"),
        ("classification", "a.csv", rows_of("0", "1", "0.0"), "has the labels '0' and '0.0'"),
        ("classification", "a.csv", rows_of("Ab c", "ab  C", "ab  C", "d"),
         "labels that differ only in case or spaces: 'Ab c' (10), 'ab  C' (20)\n"),
        ("classification", "a.csv", rows_of("a", "b") + "rare text,c\n" * 4,
         "labels of fewer than 5 rows: 'c' (4)\n"),
        ("classification", "a.csv", rows_of("a", "b ", "b"),
         "a.csv: spaces around labels are dropped: 'b' (10)\n"),
        ("multilabel", "a.csv", rows_of("a|b", "a"), "a.csv has two labels; is ',' between"),
        ("multilabel", "a.csv", rows_of("甲、乙", "甲"), "a.csv has two labels; is ',' between"),
        ("classification", "a.csv", rows_of("a").replace(",", "^"),
         "give --label; the columns are 'text^label'"),
        # tags
        ("tagging", "a.jsonl", '{"tokens": ["a", ""], "tags": ["O", "O"]}', "has an empty word"),
        ("tagging", "a.conll", scheme_of("B", "E", "S"), "the tags are BIOES: F1 of entities is"),
        ("tagging", "a.conll", scheme_of("B", "L", "U"), "the tags are BILOU: F1 of entities is"),
        ("tagging", "a.conll", "X a-B\nY a-I\nis O\n\n" * 20, "the tags are not entities"),
        # repeated texts
        ("classification", "a.csv", "text,label\n" + "x a,a\nx b,b\ny a,a\ny b,b\n" * 4,
         "4 of 16 rows"),
        ("classification", "a.csv", rows_of("a", "b", text="same"),
         "1 different texts) holds out 0; valid needs 2 or more; give more texts or --valid\n"),
    ],
)  # fmt: skip
def test_the_line_that_says_it(kind, name, content, expected, vocabulary, tmp_path):
    (tmp_path / name).write_text(content, encoding="utf-8")
    printed = prepare_task(kind, tmp_path / name, vocabulary, tmp_path / "out")[1]
    assert expected in printed and "Traceback" not in printed, printed


@pytest.mark.parametrize("label, other", [("0.0", "0"), ("YES", "yes"), ("y es", "yes")])
def test_the_label_that_a_test_file_means(label, other, vocabulary, tmp_path):
    (tmp_path / "a.csv").write_text(rows_of("yes", "0"))
    (tmp_path / "b.csv").write_text(rows_of(label))
    line = refused("classification", tmp_path / "a.csv", vocabulary, tmp_path / "out",
                   "--test", tmp_path / "b.csv")  # fmt: skip
    assert f"line 2 (row 0) has the label {label!r}, not one of '0', 'yes'; write {other!r}" in line


def test_a_folder_without_a_vocabulary_is_named_with_its_flag(vocabulary, tmp_path):
    (tmp_path / "dict.txt").write_text("a 1\n")
    train = write_csv(tmp_path / "a.csv", [("text", "label"), ("a", "b"), ("c", "d")])
    words = ["--input", train, "--text-field", "text", "--output-dir", tmp_path / "out"]
    for code, printed in (
        prepare_task("classification", train, tmp_path, tmp_path / "out"),
        call_program("prepare-pretrain", [*words, "--vocabulary", tmp_path]),
    ):
        assert code == 2 and f"error: --vocabulary {tmp_path} has no vocabulary; copy" in printed


def test_null_is_a_label_if_it_is_listed(vocabulary, tmp_path):
    (tmp_path / "a.csv").write_text(rows_of("null", "b"))
    command = ["classification", tmp_path / "a.csv", vocabulary, tmp_path / "out"]
    assert "has an empty label, 'null'; if it is a label, list all in tupe-p" in refused(*command)
    kind, train, data, out = command
    prepare.prepare_task(train, out, kind=kind, vocabulary=data, labels=["b", "null"])
    assert Task.load(str(out)).labels == ("b", "null")


@pytest.mark.parametrize(
    "given, expected",
    [
        ([], [["B-PER", "B-PER"], ["O", "B-LOC"]]),
        (["B-LOC", "B-PER", "I-PER", "O"], [["B-PER", "B-PER"], ["O", "B-LOC"]]),
        (["I-LOC", "I-PER", "O"], [["I-PER", "I-PER"], ["O", "I-LOC"]]),
    ],
)
def test_iob1_becomes_bio_if_the_labels_are_bio(given, expected, vocabulary, tmp_path):
    """valid may have a tag that train has only with the other prefix."""
    of_train = "X I-PER\nY I-PER\nis O\n\nZ I-LOC\nX I-PER\n\n" * 10
    (tmp_path / "a.conll").write_text(of_train)
    second = "I" if given[:1] == ["I-LOC"] else "B"
    (tmp_path / "b.conll").write_text(f"X I-PER\nY {second}-PER\n\nis O\nZ I-LOC\n")
    out, flags = tmp_path / "out", ["--valid", tmp_path / "b.conll"]
    flags += ["--labels", ",".join(given)] if given else []
    task = prepared("tagging", tmp_path / "a.conll", vocabulary, out, *flags)[2]
    usual = ("B-LOC", "B-PER", "I-PER", "O")
    assert task.labels == tuple(given or usual) and task.selection == "entity_f1"
    tags = [[tag for tag in row if tag != "<pad>"] for row in symbols(out, "label", "valid")]
    assert tags == expected
    # the same for rows of tupe-predict --report
    assert read_label(task, ",", ["I-PER"], ["X"]) == (expected[0][0],)


@pytest.mark.parametrize(
    "kind, train, labels, is_labelled",
    [
        ("classification", ("a", "b"), ("-1", "-1"), False),
        ("regression", ("-1", "2"), ("-1.0", "-1"), True),
        ("multilabel", ("a", "b"), ("", ""), True),
        ("classification", ("a", "unknown"), ("unknown",), True),
        ("regression", ("0.5", "2"), ("-100", "N/A"), False),
        ("regression", ("0.5", "-2.5"), ("-1", "-2", "-3"), True),
        ("regression", ("0.5", "2"), ("-1", "-1.0"), False),
    ],
)
def test_a_test_set_with_what_stands_for_none_has_no_labels(
    kind, train, labels, is_labelled, vocabulary, tmp_path
):
    (tmp_path / "a.csv").write_text(rows_of(*train))
    (tmp_path / "test.csv").write_text(rows_of(*labels, times=1))
    out, flags = tmp_path / "out", ["--test", tmp_path / "test.csv"]
    printed, report, _ = prepared(kind, tmp_path / "a.csv", vocabulary, out, *flags)
    assert ("has no labels in column 'label'" in printed) == (not is_labelled)
    assert (out / "label" / f"test.{'label' if kind == 'regression' else 'bin'}").exists() == (
        is_labelled
    )


@pytest.mark.parametrize(
    "more, is_labelled", [({}, False), ({"label": None}, False), ({"label": []}, True)]
)
def test_a_test_set_without_lists_of_labels(more, is_labelled, vocabulary, tmp_path):
    train, test = tmp_path / "a.jsonl", tmp_path / "test.jsonl"
    write_json_lines(train, [{"text": sentence(n), "label": ["a", "b"]} for n in range(20)])
    write_json_lines(test, [{"text": sentence(n), **more} for n in range(3)])
    prepared("multilabel", train, vocabulary, tmp_path / "out", "--test", test)
    assert (tmp_path / "out" / "label" / "test.bin").exists() == is_labelled


def test_no_label_is_held_out_as_a_whole():
    draw = random.Random(1)
    of_rows = [tuple(draw.sample("abcdefghijkl", draw.randint(0, 4))) for _ in range(40)]
    of_rows += [("once",), ("twice", "a"), ("twice",), ("of one text",), ("of one text",)]
    texts = [*range(len(of_rows) - 1), len(of_rows) - 2]
    for strata in (of_rows, [()] * len(of_rows)):
        drawn = draw_share(texts, strata, of_rows, 0.6, 1)
        left = {x for row, label in enumerate(of_rows) if row not in drawn for x in label}
        assert left == {x for label in of_rows for x in label}
        assert len(drawn) > 10


def rows_in(folder):
    """The row numbers of each split."""
    return {path.stem: [*map(int, path.read_text().split())] for path in folder.glob("*.index")}


@pytest.mark.parametrize("kind", KINDS)
def test_folds_test_each_row_once_and_no_text_is_on_two_sides(kind, vocabulary, tmp_path):
    """Texts that differ only in spaces are the same; each fold has its share of each label."""
    texts = [sentence(n) for n in range(60)] + [
        f"  {sentence(n)} ".replace(" ", "  ") for n in (3, 3, 4)
    ]
    number = [int(text.split()[0] == "The") + n % 2 for n, text in enumerate(texts)]
    labels = {"classification": "abc", "multilabel": ["a", "a,b", "b"]}.get(kind, [-1, 0.5, 2])
    rows = [(text, labels[n]) for text, n in zip(texts, number)]
    if kind == "tagging":
        rows = [(text, " ".join("XYO"[n] for _ in text.split())) for text, n in zip(texts, number)]
    train, out = write_csv(tmp_path / "a.csv", [("text", "label"), *rows]), tmp_path / "out"
    command = [kind, train, vocabulary, out, "--text", "text", "--label", "label"]
    printed, report, task = prepared(*command, "--folds", 4, "--valid-share", 0.2)
    assert printed.count("encoding") == 1 and "encoding 252 texts" in printed
    assert task.splits == ("train", "valid", "test") and report["folds"] == sorted(report["folds"])
    tested = []
    for fold in report["folds"]:
        of_split = rows_in(out / fold)
        assert sorted(sum(of_split.values(), [])) == [*range(63)]
        sides = [{" ".join(texts[row].split()) for row in of_split[x]} for x in task.splits]
        assert not (sides[0] & sides[1] or sides[0] & sides[2] or sides[1] & sides[2])
        assert len(of_split["test"]) in (15, 16, 17) and len(of_split["valid"]) in (9, 10)
        if kind in ("classification", "multilabel"):
            counts = Counter(number[row] for row in of_split["test"])
            wanted = Counter(number)
            assert all(abs(counts[n] - wanted[n] / 4) < 3 for n in range(3))
        tested += of_split["test"]
        assert len(read_sentences(str(out / fold / "input0" / "test"))) == len(of_split["test"])
    assert sorted(tested) == [*range(63)]
    assert "already finished" in prepared(*command, "--folds", 4, "--valid-share", 0.2)[0]

    flags = ["--test-share", 0.25, "--valid-share", 0.25]
    report = prepared(*command[:3], tmp_path / "one", *command[4:], *flags)[1]
    counts = [report["splits"][split]["rows"] for split in ("train", "valid", "test")]
    assert sum(counts) == 63 and counts[2] in (15, 16) and counts[1] in (11, 12, 13)


def test_pairs_in_both_orders_and_rows_of_a_group_stay_together(vocabulary, tmp_path):
    """Also rows that are only connected through others: by a text to one, by a group to another."""
    rows = [[sentence(n), sentence(n + 50), "ab"[n % 2], f"user {n % 17}"] for n in range(40)]
    rows += [[b, a, label, f"other {n}"] for n, (a, b, label, _) in enumerate(rows[:20])]
    train = write_csv(tmp_path / "a.csv", [["text1", "text2", "label", "user"], *rows])
    command = ["classification", train, vocabulary]
    for flags in ([], ["--group", "user"]):
        out = tmp_path / f"out{len(flags)}"
        report = prepared(*command, out, "--folds", 3, "--valid-share", 0.2, *flags)[1]
        for fold in report["folds"]:
            parts = rows_in(out / fold)
            assert sorted(sum(parts.values(), [])) == [*range(60)] and min(map(len, parts.values()))
            sides = [{frozenset(rows[n][:2]) for n in part} for part in parts.values()]
            assert sum(map(len, sides)) == len(set.union(*sides)) == 40
            users = [{rows[n % 40][3] for n in part} for part in parts.values()]
            assert (sum(map(len, users)) == len(set.union(*users))) == bool(flags)
    flags = ["--test-share", 0.3, "--valid-share", 0.3, "--group", "user"]
    report = prepared(*command, tmp_path / "one", *flags)[1]
    assert min(values["rows"] for values in report["splits"].values()) > 5
    line = refused(*command, tmp_path / "x", "--folds", 18, "--group", "user")
    assert "60 rows with 17 different groups, too few for --folds 18" in line
    valid = write_csv(tmp_path / "b.csv", [["text2", "user", "text1", "label"],
        [rows[0][0], "other 99", rows[0][1], "a"], ["x", "user 3 ", "y", "b"]])  # fmt: skip
    test = write_csv(tmp_path / "c.csv", [["text1", "text2"], ["x", "y"]])
    files = ["--valid", valid, "--test", test]
    printed, report, _ = prepared(*command, tmp_path / "given", *files, "--group", "user")
    assert "1 of 2 rows of valid are in train, too" in printed
    assert "1 of 2 rows of valid have a 'user' that train has, too" in printed
    assert "c.csv has no column 'user' (--group), so leaks are not counted" in printed
    assert report["splits"]["valid"]["warnings"] == {"also in train": 1, "user also in train": 1}
    rows[1][3] = " "
    write_csv(train, [["text1", "text2", "label", "user"], *rows])
    line = refused(*command, tmp_path / "x", "--group", "user")
    assert "a.csv, line 3 (row 1) has no group in column 'user'; --skip-bad-rows leaves" in line
    assert "has no column 'who' (--group)" in refused(*command, tmp_path / "x", "--group", "who")


@pytest.mark.parametrize(
    "flags, rows, expected",
    [
        ("--folds 5", 4, "8 rows with 4 different texts, too few for --folds 5"),
        ("--folds 2", 4, "holds out 0; valid needs 2 or more; raise it, or give more texts\n"),
        ("--folds 1", 9, "--folds: '1' is not a whole number from 2"),
        ("--folds 2 --test-share 0.2", 9, "--test-share has no effect with --folds; drop one"),
        ("--test-share 0.2 --test {valid}", 9, "--test-share has no effect with --test; drop one"),
        ("--valid-share 0", 9, "--valid-share: '0' is not a number above 0 and below 1"),
        ("--valid {valid} --seed 2", 9, "--seed has no effect with --valid; drop one"),
    ],
)
def test_shares_and_folds_that_cannot_be(flags, rows, expected, vocabulary, tmp_path):
    lines = [(sentence(n), "ab"[n % 2]) for n in range(rows)] * 2
    train = write_csv(tmp_path / "a.csv", [("text", "label"), *lines])
    words = flags.format(valid=train).split()
    line = refused("classification", train, vocabulary, tmp_path / "out", *words)
    assert expected in f"{line}\n"


def test_a_valid_file_that_is_larger_than_train_is_named(vocabulary, tmp_path):
    (tmp_path / "a.csv").write_text(rows_of("a", "b"))
    (tmp_path / "b.csv").write_text(rows_of("a", "b", times=11))
    out, files = tmp_path / "out", [tmp_path / "a.csv", "--valid", tmp_path / "b.csv"]
    printed = prepared("classification", files[0], vocabulary, out, *files[1:])[0]
    assert "valid has 22 rows, more than train with 20" in printed


def test_labels_with_fewer_texts_than_folds_are_named(vocabulary, tmp_path):
    lines = [(sentence(n), "ab"[n > 2]) for n in range(20)]
    train = write_csv(tmp_path / "a.csv", [("text", "label"), *lines])
    command = ["classification", train, vocabulary, tmp_path / "out", "--folds", 5]
    assert "some folds test none of them: 'a' (3)\n" in prepared(*command)[0]


def test_a_vocabulary_beside_dict_txt_or_named_by_flags(vocabulary, tmp_path):
    """As after fairseq-preprocess, which knows nothing of the vocabulary."""
    (tmp_path / "bin").mkdir()
    shutil.copy(vocabulary / "dict.txt", tmp_path / "bin")
    train = tmp_path / "rows.csv"
    train.write_text("text,label\n" + "".join(f"{sentence(n)},{n % 2}\n" for n in range(40)))
    model = vocabulary / "sentencepiece.bpe.model"
    words = "classification", train, tmp_path / "bin"
    assert "bin has no vocabulary; copy its files there: vocab" in refused(*words, tmp_path / "a")
    prepared(*words, tmp_path / "a", "--sentencepiece-model", model)
    shutil.copy(model, tmp_path / "bin")
    prepared(*words, tmp_path / "b")
    for name in ("input0/train.bin", "vocabulary.json", model.name):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    code, printed = prepare_task(*words, tmp_path / "c", "--gpt2-vocab-bpe", model)
    assert code == 2 and "--gpt2-vocab-bpe needs --gpt2-encoder-json" in printed
