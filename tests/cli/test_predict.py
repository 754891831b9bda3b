"""tupe-predict on small fine-tuned models of every kind, and what it refuses."""

import csv
import io
import json
import os
import shutil
import sys

import pytest
import torch

from helpers.exporting import MAX_POSITIONS, MEAN_POOLING, write_model
from helpers.predicting import HEAD, LABELS, predict, write_fine_tuned
from tupe_fairseq.models.tupe_roberta import TupeRobertaModel

TEXTS = [
    "The cat likes the house.", "", 'No "fish", it', "An old tree sees nobody. " * 9, "A dog.",
    "Every bird forgot two apples.",
]  # fmt: skip
COLUMNS = ["number", "text", "other"]
ROWS = [[str(number), text, "x,\u00e9"] for number, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A fine-tuned model of each kind, and one that takes pairs."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(1)
    found = {kind: write_fine_tuned(folder / kind, kind, rel_pos=True) for kind in LABELS}
    found["mean"] = write_fine_tuned(folder / "mean", rel_pos=True, **MEAN_POOLING)
    found["pairs"] = write_fine_tuned(folder / "pairs", texts=2, rel_pos=True)
    return found


def hub_of(checkpoint):
    return TupeRobertaModel.from_pretrained(
        str(checkpoint.parent), checkpoint.name, task="masked_lm", tokens_per_sample=MAX_POSITIONS
    ).eval()


def outputs(hub, *texts):
    """The outputs of the head, by fairseq's own path, one row at a time and cut by hand."""
    encode = hub.task.source_dictionary.index
    pieces = [[encode(one) for one in hub.bpe.encode(text.strip()).split()] for text in texts]
    room = MAX_POSITIONS - 2 * len(texts)
    while sum(map(len, pieces)) > room:
        longer = 0 if len(pieces[0]) > len(pieces[-1]) else -1
        pieces[longer].pop()
    ids = [0, *pieces[0], 2]
    for second in pieces[1:]:
        ids += [2, *second, 2]
    with torch.no_grad():
        return hub.predict(HEAD, torch.tensor([ids]), return_logits=True)[0].double()


def expected(kind, logits):
    if kind == "regression":
        return [-2 + 8 * logits.item()]
    labels = LABELS[kind]
    if kind == "multilabel":
        chosen = [number for number, logit in enumerate(logits) if logit > 0]
        shares = torch.sigmoid(logits)
        return [[labels[one] for one in chosen], [shares[one].item() for one in chosen]]
    best = int(logits.argmax())
    return [labels[best], torch.softmax(logits, 0)[best].item()]


def write_csv(path, rows, columns=COLUMNS):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


@pytest.mark.parametrize("name", [*LABELS, "mean"])
def test_every_kind_equals_fairseqs_own_model(name, models, tmp_path):
    kind = "classification" if name == "mean" else name
    source = write_csv(tmp_path / "in.csv", ROWS)
    code, log = predict(models[name], source, "--output-file", tmp_path / "out.jsonl")
    assert code == 0, log
    assert "longer than the model, truncated: 1 rows" in log
    assert "with a text that has no token: 1 rows" in log
    found = [json.loads(line) for line in open(tmp_path / "out.jsonl", encoding="utf-8")]
    assert [[row[column] for column in COLUMNS] for row in found] == ROWS
    hub = hub_of(models[name])
    assert hub.model.args.pooling == ("mean" if name == "mean" else "cls")
    for row, text in zip(found, TEXTS):
        wanted = expected(kind, outputs(hub, text))
        added = [row[column] for column in list(row)[len(COLUMNS) :]]
        assert len(added) == len(wanted)
        for one, other in zip(added, wanted):
            # rounding of float32, and of the file's six digits
            is_text = isinstance(other, str) or other in ([], one)
            assert one == (other if is_text else pytest.approx(other, rel=0, abs=1e-5))
    assert sorted(os.listdir(tmp_path)) == ["in.csv", "out.jsonl"]


def test_pairs(models, tmp_path):
    rows = [["The cat likes the house. " * 9, "A dog. " * 4], ["A dog.", ""]]
    source = write_csv(tmp_path / "in.csv", rows, ["question", "answer"])
    code, log = predict(models["pairs"], source, "--output-file", tmp_path / "out.jsonl")
    assert code == 0 and "guessed --text 'question', --text2 'answer'" in log, log
    found = [json.loads(line) for line in open(tmp_path / "out.jsonl")]
    hub = hub_of(models["pairs"])
    for row, texts in zip(found, rows):
        label, probability = expected("classification", outputs(hub, *texts))
        assert row["label"] == label
        assert row["probability"] == pytest.approx(probability, rel=0, abs=1e-5)


def read(path):
    """The rows of a file of any of the three kinds, as texts."""
    content = path.read_bytes().decode()
    if path.suffix == ".jsonl":
        found = [json.loads(line) for line in content.splitlines()]
        return [[str(value) for value in row.values()] for row in found]
    quoting = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if path.suffix == ".tsv" else {}
    header, *rows = csv.reader(io.StringIO(content), **quoting)
    assert header == [*COLUMNS, "my_label", "my_probability"]
    return rows


def test_the_endings_hold_the_same_and_batches_change_nothing(models, tmp_path):
    plain = None
    for name, *flags in (
        ("out.tsv",), ("out.csv",), ("out.jsonl",), ("one.csv", "--batch-tokens", 1),
        ("few.tsv", "--batch-tokens", 60), ("turned.csv",),
    ):  # fmt: skip
        rows = ROWS[::-1] if name == "turned.csv" else ROWS
        source = write_csv(tmp_path / "in.csv", rows)
        words = [models["classification"], source, "--output-file", tmp_path / name]
        code, log = predict(*words, "--prefix", "my_", *flags)
        assert code == 0, log
        found = read(tmp_path / name)[:: -1 if rows is not ROWS else 1]
        assert [row[:3] for row in found] == ROWS
        plain = plain or found
        assert [row[3] for row in found] == [row[3] for row in plain]
        for row, other in zip(found, plain):
            assert float(row[4]) == pytest.approx(float(other[4]), rel=0, abs=1e-5)


def test_several_labels_in_a_cell(models, tmp_path):
    source = write_csv(tmp_path / "in.csv", ROWS)
    for name, *flags in (("out.jsonl",), ("out.csv", "--label-separator", "|")):
        code, log = predict(models["multilabel"], source, "--output-file", tmp_path / name, *flags)
        assert code == 0, log
    rows = list(csv.DictReader(open(tmp_path / "out.csv", encoding="utf-8", newline="")))
    lists = [json.loads(line) for line in open(tmp_path / "out.jsonl")]
    assert max(len(row["labels"]) for row in lists) > 1
    for row, one in zip(rows, lists):
        assert row["labels"] == "|".join(one["labels"])
        assert row["probabilities"] == "|".join(map(str, one["probabilities"]))
    words = [models["multilabel"], source, "--output-file", tmp_path / "out.tsv"]
    code, log = predict(*words, "--label-separator", " ")
    assert code == 2 and "--label-separator ' ' is in the label 'b c'" in log


def test_standard_input_to_standard_output(models, monkeypatch, tmp_path):
    words = ["The cat likes.", "A dog."]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(words).encode())))
    code, log = predict(models["classification"], "-")
    assert code == 0, log
    hub = hub_of(models["classification"])
    wanted = [expected("classification", outputs(hub, text)) for text in words]
    rows = [line.split("\t") for line in log.splitlines() if "\t" in line]
    assert rows[0] == ["text", "label", "probability"]
    assert [row[:2] for row in rows[1:]] == [[t, one[0]] for t, one in zip(words, wanted)]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\nc\n")))
    code, log = predict(models["pairs"], "-", "--output-file", tmp_path / "out.csv")
    assert code == 2 and "standard input, line 2 has 1 texts, not 2" in log
    assert os.listdir(tmp_path) == []
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\nc\nd\te\n")))
    words = ["--output-file", tmp_path / "out.csv", "--skip-bad-rows"]
    code, log = predict(models["pairs"], "-", *words)
    assert code == 0 and "left out: 1 rows (other columns: 1)" in log
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3


def test_rows_are_left_out_on_request_alone(models, tmp_path):
    (tmp_path / "in.tsv").write_text("text\tother\nA dog.\tx\nNo\nThe cat.\ty\n")
    words = [models["classification"], tmp_path / "in.tsv", "--output-file", tmp_path / "out.tsv"]
    code, log = predict(*words)
    assert code == 2 and f"{tmp_path}/in.tsv, line 3 has 1 fields" in log
    assert os.listdir(tmp_path) == ["in.tsv"]
    code, log = predict(*words, "--skip-bad-rows")
    assert code == 0 and "left out: 1 rows (other columns: 1); the first: " in log
    found = (tmp_path / "out.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in found] == ["text", "A dog.", "The cat."]


def test_rows_without_names(models, tmp_path):
    (tmp_path / "in.tsv").write_text("A dog.\t1\nNo\t2\n")
    words = [models["classification"], tmp_path / "in.tsv", "--output-file", tmp_path / "out.tsv"]
    code, log = predict(*words, "--no-header", "--text", 1)
    assert code == 0, log
    found = (tmp_path / "out.tsv").read_text().splitlines()
    assert [line.split("\t")[:2] for line in found] == [["A dog.", "1"], ["No", "2"]]


def test_columns_of_the_training_data(models, tmp_path):
    """If INPUT has them; else they are guessed."""
    folder = tmp_path / "model"
    shutil.copytree(models["classification"].parent, folder)
    report = json.loads((folder / "report.json").read_text())
    report["columns"] = {"text": "other", "text2": None, "label": "x"}
    (folder / "report.json").write_text(json.dumps(report))
    rows = [["A dog.", "Every bird forgot."]]
    first, other = (
        write_csv(tmp_path / f"{name}.csv", [[row[n], "-"] for row in rows], ["text", "b"])
        for n, name in enumerate(("first", "other"))
    )
    found = []
    for source in (write_csv(tmp_path / "in.csv", rows, ["text", "other"]), first, other):
        words = [folder / "checkpoint_best.pt", source, "--output-file", tmp_path / "out.jsonl"]
        code, log = predict(*words)
        assert code == 0, log
        found.append(json.loads((tmp_path / "out.jsonl").read_text())["probability"])
    assert found[0] == found[2] != found[1]


BAD = {
    "has a column 'label'; give --prefix predicted_": ("text,label\na,b\n", []),
    "has no column 'nothing' (--text)": ("text\na\n", ["--text", "nothing"]),
    "the task has 1 texts, not 'text', 'b'": ("text,b\na,\n", ["--text", "text", "--text2", "b"]),
    "has no rows": ("text\n", []),
    "has a text with a tab or a line end, which .tsv cannot hold": ('text,b\n"a\tb",c\n', []),
    "in.csv is an input": ("text\na\n", ["--output-file", "OUT/in.csv"]),
    "--fp16 needs a GPU": ("text\na\n", ["--fp16"]),
    "give the files of one vocabulary": ("text\na\n", ["--gpt2-vocab-bpe", "OUT/in.csv"]),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message, models, tmp_path):
    content, flags = BAD[message]
    (tmp_path / "in.csv").write_text(content)
    flags = [str(flag).replace("OUT", str(tmp_path)) for flag in flags]
    words = [models["classification"], tmp_path / "in.csv"]
    code, log = predict(*words, "--output-file", tmp_path / "out.tsv", *flags)
    assert code == 2 and message in log.splitlines()[-1]
    assert os.listdir(tmp_path) == ["in.csv"]


def test_checkpoints_that_do_not_fit(models, tmp_path):
    source = write_csv(tmp_path / "in.csv", ROWS)
    folder = tmp_path / "model"
    shutil.copytree(models["classification"].parent, folder)
    report = json.loads((folder / "report.json").read_text())

    def last_line(**description):
        content = {**report, "description": {**report["description"], **description}}
        (folder / "report.json").write_text(json.dumps(content))
        code, log = predict(
            folder / "checkpoint_best.pt", source, "--output-file", tmp_path / "o.csv"
        )
        assert code == 2 and not (tmp_path / "o.csv").exists()
        return log.splitlines()[-1]

    wrong = "was fine-tuned for classification with 3 outputs, but the task mine is a"
    assert f"{wrong} regression" in last_line(kind="regression", labels=[])
    assert f"{wrong} classification with 2" in last_line(labels=["a", "b"])
    (folder / "report.json").unlink()
    code, log = predict(folder / "checkpoint_best.pt", source)
    assert code == 2 and "no task is described by" in log and "give --data" in log
    data = folder.parent / "data"
    shutil.copytree(models["classification"].parent, data)
    code, log = predict(folder / "checkpoint_best.pt", source, "--data", data)
    assert code == 0, log
    state = torch.load(models["mean"])
    state["cfg"]["model"].pooling = "cls"
    torch.save(state, folder / "checkpoint_best.pt")
    code, log = predict(folder / "checkpoint_best.pt", source, "--data", data)
    assert code == 2 and "pooling is cls in its options and mean in its head" in log
    pretrained = write_model(tmp_path / "pretrained", folder, rel_pos=True)
    code, log = predict(pretrained, source, "--data", data)
    assert code == 2 and "has no classification head: it is pre-trained only" in log
