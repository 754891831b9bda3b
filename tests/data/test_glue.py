"""GLUE's official files become data that fairseq reads back, and predictions official files."""

import json
from pathlib import Path

import pytest
import sentencepiece
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from helpers.glue_files import DEV_HEADERS, HEADERS, TEST_HEADERS, prepare_glue, write_glue
from helpers.running import REPO
from tupe_fairseq import prepare
from tupe_fairseq.data.text_files import clean_line
from tupe_fairseq.labelled.glue import GLUE_TASKS, official_files, read_glue, write_submission

OFFICIAL = REPO.parent / "shared" / "data" / "glue"
# what the paper and the GLUE server fix: columns of texts and label by their names in the official
# headers, a label, labels in the order of the classes, metrics, what picks a checkpoint, epochs,
# files of predictions
ENTAILMENT = ("entailment", "not_entailment")
ACCURACY = (("accuracy",), "accuracy")
F1 = (("f1", "accuracy"), "acc_and_f1")
CORRELATION = (("pearson", "spearman"), "pearson_and_spearman")
FIXED = {
    "CoLA": ("sentence", "label", "1", ("0", "1"), ("mcc",), "mcc", 10, ["CoLA.tsv"]),
    "SST-2": ("sentence", "label", "0", ("0", "1"), *ACCURACY, 10, ["SST-2.tsv"]),
    "MRPC": ("#1_String #2_String", "Quality", "1", ("0", "1"), *F1, 10, ["MRPC.tsv"]),
    "STS-B": ("sentence1 sentence2", "score", "3.800", (), *CORRELATION, 10, ["STS-B.tsv"]),
    "QQP": ("question1 question2", "is_duplicate", "0", ("0", "1"), *F1, 5, ["QQP.tsv"]),
    "MNLI": (
        "sentence1 sentence2", "gold_label", "neutral", ("contradiction", "entailment", "neutral"),
        *ACCURACY, 5, ["MNLI-m.tsv", "MNLI-mm.tsv"],
    ),
    "QNLI": ("question sentence", "label", "entailment", ENTAILMENT, *ACCURACY, 5, ["QNLI.tsv"]),
    "RTE": ("sentence1 sentence2", "label", "entailment", ENTAILMENT, *ACCURACY, 10, ["RTE.tsv"]),
    "WNLI": ("sentence1 sentence2", "label", "1", ("0", "1"), *ACCURACY, 10, ["WNLI.tsv"]),
}  # fmt: skip


@pytest.fixture
def read(tmp_path):
    """Reads a file of these lines (bytes)."""

    def read(name, split, *lines, end=b"\n"):
        path = tmp_path / "file.tsv"
        path.write_bytes(b"".join(line + end for line in lines))
        return read_glue(GLUE_TASKS[name], split, str(path))

    return read


@pytest.mark.parametrize("name", FIXED)
def test_what_paper_and_server_fix(name, read):
    texts, label, value, *fixed = FIXED[name]
    task = GLUE_TASKS[name]
    tests = [split for split in task.files if split.startswith("test")]
    assert fixed == [
        task.labels, task.metrics, task.selection, task.epochs, [*map(task.submission, tests)],
    ]  # fmt: skip
    for split in task.files:
        train = HEADERS[name] or "source label star sentence"
        valid = DEV_HEADERS.get(name, train)
        header = {"train": train, "valid": valid, "test": TEST_HEADERS[name]}[split.rstrip("1")]
        # each field has the name of its column
        line = "\t".join(value if one == label else one for one in header.split())
        lines = ["\t".join(header.split()), line] if HEADERS[name] or split == "test" else [line]
        rows = read(name, split, *map(str.encode, lines))
        assert rows.texts == [tuple(texts.split())]
        assert rows.labels == ([] if split.startswith("test") else [value])


def test_rows(read):
    """Only line feeds and tabs are separators; unusable rows are counted, but kept in test sets."""
    text = 'one "two\u0085\u2028 \r three\x1c'
    rows = read("CoLA", "train", f"\ufeffa\t1\t\t{text}".encode(), end=b"\r\n")
    assert rows.texts == [(text,)] and rows.labels == ["1"]
    rows = read("QQP", "test", b"id\ta\tb", b"7\tWhat", b"on?\tHow?", b"", b"9\tx\ty", b"", b"")
    assert rows.read == 4 and rows.index == ["7", "1", "2", "9"]
    assert rows.texts == [("What", ""), ("How?", ""), ("", ""), ("x", "y")]
    assert rows.warnings == {"fewer than 3 fields": 3}
    rows = read("RTE", "train", b"index\ta\tb\tlabel", b"0\tx\ty", b"1\tx\ty\tentailment\tmore")
    assert rows.read == 2 and rows.texts == [("x", "y")]
    assert rows.dropped == {"fewer than 4 fields": 1}
    header = b"id\tqid1\tqid2\ta\tb\tlabel"
    rows = read("QQP", "train", header, b"0\t1\t2\tx\ty\t1", b"0\t1\t2\tx\ty\t1\t1")
    assert rows.read == 2 and rows.dropped == {"not 6 fields": 1}
    with pytest.raises(ValueError, match="file.tsv is not a text file in UTF-8"):
        read("CoLA", "train", b"a\t1\t\tcaf\xe9")
    with pytest.raises(ValueError, match="the header is missing; line 1 is a row"):
        read("RTE", "train", *[b"0\tx\ty\tentailment"] * 2)
    with pytest.raises(ValueError, match="has two rows with the index 7, which the server refuses"):
        read("RTE", "test", b"index\ta\tb", *[b"7\tx\ty"] * 2)
    for label in ("1_0", "5.1"):
        with pytest.raises(ValueError, match=f"unknown label '{label}'"):
            read("STS-B", "train", *[f"1\t2\t3\t4\t5\t6\t7\t8\t9\t{label}".encode()] * 2)


@pytest.mark.skipif(not OFFICIAL.is_dir(), reason=f"{OFFICIAL} with GLUE's files is absent")
@pytest.mark.parametrize("name", ["CoLA", "SST-2", "MRPC", "STS-B", "RTE"])
def test_every_row_of_the_official_files(name):
    task = GLUE_TASKS[name]
    for split, path in official_files(task, str(OFFICIAL)).items():
        rows, lines = read_glue(task, split, path), Path(path).read_bytes().rstrip().count(b"\n")
        assert len(rows.texts) == rows.read == lines + (name == "CoLA" and split != "test")
        assert all(all(texts) for texts in rows.texts)
        assert not rows.dropped and not rows.warnings


@pytest.fixture(scope="module")
def prepared(vocabulary, tmp_path_factory):
    """The content of the official files, and OUT, made by two calls; the second one skips."""
    folder = tmp_path_factory.mktemp("official")
    found, out = write_glue(folder), tmp_path_factory.mktemp("out")
    prepare.prepare_glue(folder, out, vocabulary=vocabulary, tasks=["MRPC", "STS-B"])
    code, printed = prepare_glue(folder, "ALL", vocabulary, out)
    assert code == 0, printed
    skipped = {name for name in GLUE_TASKS if f"{out / name} is already finished" in printed}
    assert skipped == {"MRPC", "STS-B"}
    with open(folder / "RTE" / "dev.tsv", "a") as file:
        file.write("\n")
    code, printed = prepare_glue(folder, "RTE", vocabulary, out)
    assert code == 2 and "other settings: dev.tsv has changed since; give another" in printed
    return found, out


def load(folder, task, split):
    """A split and its dictionary as fairseq's sentence_prediction loads them."""
    config = SentencePredictionConfig(
        data=str(folder), num_classes=task.num_classes, init_token=0, separator_token=2,
        no_shuffle=True, regression_target=(not task.labels), seed=1,
    )  # fmt: skip
    fairseq_task = SentencePredictionTask.setup_task(config)
    return fairseq_task.load_dataset(split), fairseq_task.source_dictionary


def decode(row, is_pair, dictionary, model):
    """The texts of ``<s> a </s>`` or ``<s> a </s> </s> b </s>``."""
    ids = row["net_input.src_tokens"].tolist()
    end = ids.index(2)
    assert ids[0] == 0 and ids[-1] == 2 and (ids[end + 1] == 2 if is_pair else end == len(ids) - 1)
    parts = [ids[1:end], ids[end + 2 : -1]][: 1 + is_pair]
    return tuple(model.decode([dictionary[i] for i in part]) for part in parts)


@pytest.mark.parametrize("name", GLUE_TASKS)
def test_fairseq_reads_back_every_row(name, prepared):
    task, folder = GLUE_TASKS[name], prepared[1] / name
    model = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    report = json.loads((folder / "report.json").read_text())
    for split, found in prepared[0][name].items():
        dataset, dictionary = load(folder, task, split)
        rows = [dataset[row] for row in range(len(dataset))]
        decoded = [decode(row, task.texts == 2, dictionary, model) for row in rows]
        assert decoded == [tuple(map(clean_line, texts)) for texts in found.texts]
        if split.startswith("test"):
            assert "target" not in rows[0]
            assert (folder / f"{split}.index").read_text().split() == found.index
        elif not task.labels:
            assert [row["target"][0] for row in rows] == [float(x) / 5 for x in found.labels]
        else:
            targets = [int(row["target"]) for row in rows]
            assert targets == [task.labels.index(label) for label in found.labels]
        counts = report["splits"][split]
        assert (counts["rows_read"], counts["rows"]) == (found.read, len(found.texts))
        assert sum(counts["dropped"].values()) == found.dropped["broken"]
        assert (not task.labels) or sum(counts["labels"].values()) == len(found.labels)


@pytest.mark.parametrize(
    "name, split, predictions, file, lines",
    [
        ("RTE", "test", [0, 1], "RTE.tsv", ["7\tentailment", "8\tnot_entailment"]),
        ("MNLI", "test1", [2, 0], "MNLI-mm.tsv", ["7\tneutral", "8\tcontradiction"]),
        ("CoLA", "test", [1, 0], "CoLA.tsv", ["7\t1", "8\t0"]),
        ("STS-B", "test", [5.2, 3.14159], "STS-B.tsv", ["7\t5.000", "8\t3.142"]),
        ("STS-B", "test", [-0.2, 0.0], "STS-B.tsv", ["7\t0.000", "8\t0.000"]),
    ],
)
def test_submission(name, split, predictions, file, lines, tmp_path):
    path = write_submission(str(tmp_path), GLUE_TASKS[name], split, ["7", "8"], predictions)
    assert path == str(tmp_path / file)
    with open(path, encoding="utf-8") as written:
        assert written.read().splitlines() == ["index\tprediction", *lines]
