"""tupe-prepare-task from files to what fairseq reads back, for each kind of task."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
import sentencepiece
from fairseq.data import Dictionary

from helpers.glue_files import ODD_TEXTS, prepare_glue, sentence, write_glue, write_pretrain_dir
from helpers.own_files import prepare_task, tagged, write_conll, write_csv, write_jsonl
from tupe_fairseq.labelled.labels import label_of
from tupe_fairseq.labelled.task_report import read_task_report, task_of
from tupe_fairseq.text.mmap_index import count, first_sentences
from tupe_fairseq.text.treatment import TextTreatment

LABELS = ("<pad>", "very good", "100%", "n\u00e4h\u00a0er")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    write_pretrain_dir(folder / "data")
    return folder


def symbols(folder, part, split):
    """The rows of a part of a split as fairseq's dictionary names their symbols, without </s>."""
    dictionary = Dictionary.load(str(folder / part / "dict.txt"))
    prefix = str(folder / part / split)
    rows = first_sentences(prefix, count(prefix)[0])
    assert all(row[-1] == dictionary.eos() for row in rows)
    return [[dictionary[i] for i in row[:-1]] for row in rows]


def texts(folder, split, part="input0"):
    model = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    return [model.decode(row) for row in symbols(folder, part, split)]


def labels(folder, split):
    return [tuple(map(label_of, row)) for row in symbols(folder, "label", split)]


def read(folder):
    report = read_task_report(str(folder))
    return report, task_of(report, "report.json")


@pytest.fixture(scope="module")
def classified(place):
    """Rows of four classes, one of them rare, and of texts that trip up readers of CSV."""
    rows = [
        (ODD_TEXTS[n] if n < len(ODD_TEXTS) else sentence(n), LABELS[n % 3 if n % 10 else 3])
        for n in range(80)
    ]
    rows[7] = ("two\nlines,\tone text", LABELS[1])
    write_csv(place / "a.csv", [("Text", "Label"), *rows])
    write_csv(place / "test.csv", [("Text", "Label"), *((text, "") for text, _ in rows[:9])])
    code, printed = prepare_task(
        "classification", place / "a.csv", place / "data", place / "classes",
        "--test", place / "test.csv",
    )  # fmt: skip
    assert code == 0, printed
    return rows, place / "classes", printed


def test_classes_of_any_spelling_and_a_stratified_share(classified):
    rows, folder, printed = classified
    report, task = read(folder)
    assert task.labels == tuple(sorted(LABELS)) and (task.kind, task.texts) == ("classification", 1)
    assert (task.name, task.splits) == ("classes", ("train", "valid", "test"))
    assert (task.metrics, task.selection) == (("accuracy", "macro_f1"), "accuracy")
    treat = TextTreatment().apply
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
        assert f"{split}  " in printed and f"very good: {counts['very good']}" in printed
    assert len(found["valid"]) == 8
    of_all, of_valid = (Counter(x[1] for x in part) for part in (expected, found["valid"]))
    assert all(abs(of_valid[label] - of_all[label] / 10) < 1 for label in LABELS)
    assert "text is column 'Text', label is column 'Label' (by their names; --text" in printed
    assert "has nothing in column 'Label': a test set without labels" in printed
    assert texts(folder, "test") == [text for text, _ in expected[:9]]
    assert (folder / "test.index").read_text() == "".join(f"{n}\n" for n in range(9))
    assert not (folder / "label" / "test.bin").exists() and not (folder / "work").exists()
    assert sum(values["warnings"].get("empty text", 0) for values in report["splits"].values()) == 2


def test_again_it_is_finished_or_refused(classified, place):
    folder = classified[1]
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    command = ["classification", place / "a.csv", place / "data", folder]
    code, printed = prepare_task(*command, "--test", place / "test.csv")
    assert code == 0 and f"{folder} is already finished; skipped" in printed
    code, printed = prepare_task(*command, "--test", place / "test.csv", "--seed", 2)
    assert code == 2 and "made with other settings: seed was 1 and is now 2" in printed
    code, printed = prepare_task(*command, "--test", place / "a.csv")
    assert code == 2 and "made with other settings: test was" in printed
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_an_interrupted_run_ends_with_the_same_bytes(classified, place, tmp_path):
    folder = shutil.copytree(classified[1], tmp_path / "classes")
    steps = json.loads((folder / "steps.json").read_text())
    del steps["finished"]["prepared"]
    (folder / "steps.json").write_text(json.dumps(steps))
    (folder / "report.json").unlink()
    (folder / "label" / "train.bin").unlink()
    (folder / "work").mkdir()
    (folder / "work" / "train.input0").write_text("half")
    command = ["classification", place / "a.csv", place / "data", folder]
    code, printed = prepare_task(*command, "--test", place / "test.csv")
    assert code == 0, printed
    for path in classified[1].rglob("*"):
        if path.is_file():
            assert (folder / path.relative_to(classified[1])).read_bytes() == path.read_bytes()
    assert sum(path.is_file() for path in folder.rglob("*")) == sum(
        path.is_file() for path in classified[1].rglob("*")
    )


def test_the_same_data_as_of_glue(place, tmp_path):
    """SST-2 with other names of columns and labels; STS-B with its scale."""
    found = write_glue(tmp_path / "official", ["SST-2", "STS-B"])
    official = tmp_path / "official"
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
        out = tmp_path / name
        for split in ("valid", "test"):
            flags += [f"--{split}", tmp_path / f"{split}.{ending}"]
        code, printed = prepare_task(
            kind, tmp_path / f"train.{ending}", place / "data", out, *flags
        )
        assert code == 0, printed
        glue = tmp_path / "glue" / name
        files = {path.relative_to(glue) for path in glue.rglob("*") if path.is_file()}
        assert files == {path.relative_to(out) for path in out.rglob("*") if path.is_file()}
        other = {file for file in files if (out / file).read_bytes() != (glue / file).read_bytes()}
        labels_differ = {"label/dict.txt"} if name == "SST-2" else set()
        assert set(map(str, other)) == {"report.json", "steps.json"} | labels_differ
        report, theirs = (read_task_report(str(folder)) for folder in (out, glue))
        for split, values in theirs["splits"].items():
            same = {**report["splits"][split], "labels": values["labels"]}
            assert same == values
            counts = list(report["splits"][split]["labels"].values())
            assert counts == list(values["labels"].values())


def test_any_number_of_labels(place, tmp_path):
    rows = [(sentence(n), [["a b", "c"], [], ["c"], ["<s>", "a b", "c"]][n % 4]) for n in range(40)]
    write_jsonl(tmp_path / "a.jsonl", [{"text": text, "labels": found} for text, found in rows])
    cells = [(text, " | ".join(found)) for text, found in rows]
    write_csv(tmp_path / "b.csv", [("text", "labels"), *cells])
    for name, flags in (("a.jsonl", []), ("b.csv", ["--label-separator", "|"])):
        out = tmp_path / name[0]
        code, printed = prepare_task("multilabel", tmp_path / name, place / "data", out, *flags)
        assert code == 0, printed
        report, task = read(out)
        assert task.labels == ("<s>", "a b", "c")
        assert (task.metrics, task.selection) == (("micro_f1", "macro_f1"), "micro_f1")
        found = []
        for split in ("train", "valid"):
            found += zip(texts(out, split), labels(out, split))
        assert sorted(found) == sorted((text, tuple(of_text)) for text, of_text in rows)
        # the share of each set of labels
        assert sorted(map(len, labels(out, "valid"))) == [0, 1, 2, 3]
        assert report["splits"]["train"]["labels"] == {"<s>": 9, "a b": 18, "c": 27}


def test_tags_stand_on_first_pieces(place, tmp_path):
    sentences = [tagged(number) for number in range(30)]
    sentences[4] = (["The cat", "\u200b", "sees"], ["B-who", "O", "<pad>"])
    write_jsonl(tmp_path / "a.jsonl", [{"tokens": a, "ner_tags": b} for a, b in sentences])
    lines = [" ".join(words) for words, _ in sentences[20:]]
    write_csv(tmp_path / "c.csv", [("tokens",), *((line,) for line in lines), ("",)])
    code, printed = prepare_task(
        "tagging", tmp_path / "a.jsonl", place / "data", tmp_path / "out", "--test",
        tmp_path / "c.csv",
    )  # fmt: skip
    assert code == 0, printed
    report, task = read(tmp_path / "out")
    assert task.labels == ("<pad>", "B-who", "I-who", "O")  # <pad> is none of BIO's
    assert (task.metrics, task.selection) == (("accuracy",), "accuracy")
    found = []
    for split in ("train", "valid"):
        for row, tags in zip(
            symbols(tmp_path / "out", "input0", split), symbols(tmp_path / "out", "label", split)
        ):
            assert len(row) == len(tags) and tags[0] != "<pad>"
            starts = [place for place, tag in enumerate(tags) if tag != "<pad>"]
            words = ["".join(row[a:b]) for a, b in zip(starts, [*starts[1:], None])]
            words = [word.replace("\u2581", " ").strip() for word in words]
            found.append((words, [label_of(tag) for tag in tags if tag != "<pad>"]))
    sentences[4] = (["The cat", "<unk>", "sees"], ["B-who", "O", "<pad>"])
    assert sorted(found) == sorted(sentences)
    warned = report["splits"]["train"]["warnings"]
    assert warned == {"words apart have other pieces than in a line": 1}
    assert report["splits"]["test"]["warnings"] == {"empty text": 1}
    assert report["splits"]["test"]["rows"] == 11 and report["splits"]["test"]["labels"] == {}
    assert texts(tmp_path / "out", "test") == [*lines, ""]
    # where words begin without tags
    starts = [row.count("<unk>") for row in symbols(tmp_path / "out", "label", "test")]
    assert starts == [len(words) for words, _ in sentences[20:]] + [0]


def test_bio(place, tmp_path):
    write_conll(tmp_path / "a.conll", [tagged(number) for number in range(20)])
    write_conll(tmp_path / "b.conll", [tagged(number) for number in range(20, 26)])
    code, printed = prepare_task(
        "tagging", tmp_path / "a.conll", place / "data", tmp_path / "out", "--valid",
        tmp_path / "b.conll", "--test", tmp_path / "b.conll", "--labels", "O,B-who,I-who",
        "--max-positions", 12,
    )  # fmt: skip
    assert code == 0 and "the tags are BIO, and checked" in printed, printed
    report, task = read(tmp_path / "out")
    assert task.labels == ("O", "B-who", "I-who") and task.selection == "entity_f1"
    # a test set with labels has them, and the numbers of its rows
    assert labels(tmp_path / "out", "test") == labels(tmp_path / "out", "valid")
    assert (tmp_path / "out" / "test.index").read_text().split() == list("012345")
    lengths = [len(row) for row in symbols(tmp_path / "out", "input0", "train")]
    assert report["splits"]["train"]["too_long"] == sum(length + 2 > 12 for length in lengths) > 0


def test_scores(place, tmp_path):
    lines = [(sentence(n), n / 4 - 1) for n in range(24)]
    write_csv(tmp_path / "a.csv", [("text", "score"), *lines])
    write_csv(tmp_path / "b.csv", [("text", "score"), ("one", -3), ("two", 2), ("three", 99)])
    command = ["regression", tmp_path / "a.csv", place / "data"]
    code, printed = prepare_task(*command, tmp_path / "a", "--valid", tmp_path / "b.csv")
    assert code == 0 and "the scale is -1 to 4.75, as in train (--scale)" in printed, printed
    report, task = read(tmp_path / "a")
    assert (task.scale, task.num_classes) == ((-1.0, 4.75), 1)
    found = np.loadtxt(tmp_path / "a" / "label" / "valid.label")
    # as they are, not cut to the scale; the same two operations on float64
    assert found.tolist() == [(score + 1) / 5.75 for score in (-3, 2, 99)]
    assert report["splits"]["valid"]["warnings"] == {"score outside -1 to 4.75": 2}
    assert sum(report["splits"]["train"]["labels"].values()) == 24
    assert not (tmp_path / "a" / "label" / "dict.txt").exists()
    code, printed = prepare_task(*command, tmp_path / "b", "--scale=-1,7", "--valid-share", 0.25)
    assert code == 0, printed
    report, task = read(tmp_path / "b")
    assert task.scale == (-1.0, 7.0) and report["splits"]["valid"]["rows"] == 6
    assert "scale is" not in printed
