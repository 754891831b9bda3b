"""tupe-predict and tupe-encode give what fairseq's own model does, row for row."""

import csv
import io
import json
import os
import shutil
import sys

import numpy as np
import pytest
import torch

from helpers.glue_files import sentence, write_pretrain_dir
from helpers.models import (
    HEAD,
    LABELS,
    MAX_POSITIONS,
    MEAN_POOLING,
    write_fine_tuned,
    write_model,
)
from helpers.running import call_program, run_here
from tupe_fairseq.data.task import Task
from tupe_fairseq.files import copy_vocabulary
from tupe_fairseq.inference.predict import predict as through_fairseq
from tupe_fairseq.inference.texts import batches_by_length
from tupe_fairseq.models.tupe_roberta import TupeRobertaModel

TEXTS = [
    "The cat likes the house.", "", 'No "fish", it', "An old tree sees nobody. " * 9, "A dog.",
    "Every bird forgot two apples.",
]  # fmt: skip
KINDS = ("classification", "regression", "multilabel")
COLUMNS = ["number", "text", "other"]
ROWS = [[str(number), text, "x,\u00e9"] for number, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A fine-tuned model of each kind, one that takes pairs, and pre-trained ones."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(1)
    found = {kind: write_fine_tuned(folder / kind, kind, rel_pos=True) for kind in KINDS}
    found["mean"] = write_fine_tuned(folder / "mean", rel_pos=True, **MEAN_POOLING)
    found["pairs"] = write_fine_tuned(folder / "pairs", texts=2, rel_pos=True)
    found["data"] = folder / "data of mean"
    found["post"] = write_model(folder / "post", found["data"])
    found["pre"] = write_model(folder / "pre", found["data"], encoder_normalize_before=True)
    return found


def hub_of(checkpoint, *data):
    return TupeRobertaModel.from_pretrained(
        str(checkpoint.parent), checkpoint.name, *map(str, data), task="masked_lm",
        tokens_per_sample=MAX_POSITIONS, bpe="sentencepiece",
        sentencepiece_model=f"{(data or [checkpoint.parent])[0]}/sentencepiece.bpe.model",
    ).eval()  # fmt: skip


def ids_of(hub, *texts):
    """Token ids, one row at a time and cut by hand."""
    encode = hub.task.source_dictionary.index
    pieces = [[encode(one) for one in hub.bpe.encode(text.strip()).split()] for text in texts]
    while sum(map(len, pieces)) > MAX_POSITIONS - 2 * len(texts):
        pieces[0 if len(pieces[0]) > len(pieces[-1]) else -1].pop()
    ids = [0, *pieces[0], 2]
    for second in pieces[1:]:
        ids += [2, *second, 2]
    return torch.tensor([ids])


def expected(hub, kind, *texts):
    """The cells that are added to a row, by fairseq's own path."""
    with torch.no_grad():
        logits = hub.predict(HEAD, ids_of(hub, *texts), return_logits=True)[0].double()
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


def predict(*words):
    return run_here("tupe-predict", *words, "--cpu").stdout


def json_lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("name", [*KINDS, "mean"])
def test_every_kind_equals_fairseqs_own_model(name, models, tmp_path):
    kind = "classification" if name == "mean" else name
    source = write_csv(tmp_path / "in.csv", ROWS)
    log = predict(models[name], source, "--output-file", tmp_path / "out.jsonl")
    assert "longer than the model, truncated: 1 rows" in log
    assert "with a text that has no token: 1 rows" in log
    found = json_lines(tmp_path / "out.jsonl")
    assert [[row[column] for column in COLUMNS] for row in found] == ROWS
    hub = hub_of(models[name])
    assert hub.model.args.pooling == ("mean" if name == "mean" else "cls")
    for row, text in zip(found, TEXTS):
        wanted = expected(hub, kind, text)
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
    log = predict(models["pairs"], source, "--output-file", tmp_path / "out.jsonl")
    assert "guessed --text 'question', --text2 'answer'" in log, log
    hub = hub_of(models["pairs"])
    for row, texts in zip(json_lines(tmp_path / "out.jsonl"), rows):
        label, probability = expected(hub, "classification", *texts)
        assert row["label"] == label
        assert row["probability"] == pytest.approx(probability, rel=0, abs=1e-5)


def test_the_endings_hold_the_same_and_batches_change_nothing(models, tmp_path):
    first = None
    for name, *flags in (
        ("out.tsv",), ("out.csv", "--batch-tokens", 1), ("out.jsonl",),
        ("turned.csv", "--batch-tokens", 60),
    ):  # fmt: skip
        step = -1 if name == "turned.csv" else 1
        source = write_csv(tmp_path / "in.csv", ROWS[::step])
        words = [models["classification"], source, "--output-file", tmp_path / name]
        predict(*words, "--prefix", "my_", *flags)
        if name.endswith("jsonl"):
            rows = [[*map(str, row.values())] for row in json_lines(tmp_path / name)]
        else:
            content = io.StringIO((tmp_path / name).read_bytes().decode())
            tsv = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if name.endswith("tsv") else {}
            header, *rows = csv.reader(content, **tsv)
            assert header == [*COLUMNS, "my_label", "my_probability"]
        rows = rows[::step]
        first = first or rows
        assert [row[:4] for row in rows] == [[*row, label[3]] for row, label in zip(ROWS, first)]
        shares = [[float(row[4]) for row in table] for table in (rows, first)]
        assert shares[0] == pytest.approx(shares[1], rel=0, abs=1e-5)


@pytest.mark.parametrize("tokens, sizes", [(1, [1] * 8), (18, [1, 2, 3, 2]), (1000, [8])])
def test_batches_of_similar_length(tokens, sizes):
    lengths = [3, 9, 2, 9, 5, 3, 30, 2]
    found = list(batches_by_length(lengths, tokens))
    assert [len(rows) for rows in found] == sizes
    rows = sum(map(list, found), [])
    assert sorted(rows) == list(range(8))
    assert [lengths[row] for row in rows] == sorted(lengths, reverse=True)


def test_standard_input_and_bad_rows(models, monkeypatch, tmp_path):
    def stdin(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    stdin(b"The cat likes.\nA dog.")
    log = predict(models["classification"], "-")
    hub = hub_of(models["classification"])
    rows = [line.split("\t") for line in log.splitlines() if "\t" in line]
    assert rows[0] == ["text", "label", "probability"]
    texts = ["The cat likes.", "A dog."]
    labels = [expected(hub, "classification", text)[0] for text in texts]
    assert [row[:2] for row in rows[1:]] == [[*pair] for pair in zip(texts, labels)]
    # a bad row stops it, but on request is left out and counted
    words = [models["pairs"], "-", "--output-file", tmp_path / "out.csv"]
    stdin(b"a\tb\nc\n")
    code, log = call_program("predict", words)
    assert code == 2 and "standard input, line 2 has 1 texts, not 2" in log
    assert os.listdir(tmp_path) == []
    stdin(b"a\tb\nc\nd\te\n")
    log = predict(*words, "--skip-bad-rows")
    assert "left out: 1 rows (other columns: 1)" in log
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3


def test_columns_are_those_of_the_training_data(models, tmp_path):
    """If INPUT has them; else they are guessed."""
    folder = shutil.copytree(models["classification"].parent, tmp_path / "model")
    report = json.loads((folder / "report.json").read_text())
    report["columns"] = {"text": "other", "text2": None, "label": "x"}
    (folder / "report.json").write_text(json.dumps(report))
    found = []
    for columns, row in (
        (["text", "other"], ["A dog.", "Every bird forgot."]), (["text", "b"], ["A dog.", "-"]),
        (["text", "b"], ["Every bird forgot.", "-"]),
    ):  # fmt: skip
        source, out = write_csv(tmp_path / "in.csv", [row], columns), tmp_path / "out.jsonl"
        predict(folder / "checkpoint_best.pt", source, "--output-file", out)
        found.append(json.loads(out.read_text())["probability"])
    assert found[0] == found[2] != found[1]


def test_what_does_not_fit_is_refused(models, tmp_path):
    source = write_csv(tmp_path / "in.csv", ROWS)
    folder = shutil.copytree(models["classification"].parent, tmp_path / "model")
    report = json.loads((folder / "report.json").read_text())
    report["description"]["labels"] = ["a", "b"]
    (folder / "report.json").write_text(json.dumps(report))
    pretrained = write_model(tmp_path / "pretrained", folder, rel_pos=True)
    data = ["--data", models["classification"].parent]
    state = torch.load(models["mean"])
    state["cfg"]["model"].pooling = "cls"
    torch.save(state, tmp_path / "pooling.pt")
    for checkpoint, flags, message in (
        (models["classification"], ["--text", "nothing"], "has no column 'nothing' (--text)"),
        (models["classification"], ["--output-file", source], "in.csv is an input"),
        (folder / "checkpoint_best.pt", [], "classification with 2"),
        (tmp_path / "pooling.pt", data, "pooling is cls in its options and mean in its head"),
        (pretrained, data, "has no classification head: it is pre-trained only"),
    ):
        words = [checkpoint, source, "--output-file", tmp_path / "out.csv", "--cpu", *flags]
        code, log = call_program("predict", words)
        assert code == 2 and message in log.splitlines()[-1], log
        assert not (tmp_path / "out.csv").exists()


# ---- Tags


def sentences():
    """Words of one letter and more, also of nothing that is printed; up to 120 in a sentence."""
    texts = [" ".join(sentence(one) for one in range(n, n + n % 7 * n + 1)) for n in range(9)]
    found = [text.split() for text in texts]
    found[2][1] = "\u200b"
    found.append(["forgot" * 20, "A", "d" * 60])
    return found


def test_every_word_has_the_tag_of_fairseqs_task(tmp_path):
    source, data, tags = tmp_path / "in.conll", tmp_path / "data", ("O", "B-x", "I-x")
    blocks = [[f"0\t{w}\t{tag}" for w, tag in zip(words, tags * 99)] for words in sentences()]
    source.write_text("\n\n".join("\n".join(block) for block in blocks) + "\n")
    pretrained = write_pretrain_dir(tmp_path / "pretrained")
    run_here(
        "tupe-prepare-task", "--kind", "tagging", "--train", source, "--valid", source, "--text", 2,
        "--pretrain-dir", pretrained, "--output-dir", data, "--max-positions", MAX_POSITIONS,
        "--workers", 1,
    )  # fmt: skip
    checkpoint = write_model(
        tmp_path / "model", pretrained, {HEAD: len(tags)}, task="token_tagging",
        classification_head_name=HEAD, num_classes=len(tags), rel_pos=True,
    )  # fmt: skip
    copy_vocabulary(str(data), str(tmp_path / "model"))
    labels = Task.load(str(data)).labels
    wanted = [
        [labels[n] for n in row] for row in through_fairseq(checkpoint, data, "valid", cpu=True)
    ]
    assert [*map(len, wanted)] == [*map(len, sentences())] and len(set(sum(wanted, []))) > 1
    out = tmp_path / "out.jsonl"
    for flags in ([], ["--batch-tokens", 1]):
        log = predict(checkpoint, source, "--text", 2, "--output-file", out, *flags)
        assert "longer than the model, tagged in windows: " in log, log
        assert [(row["2"], row["tags"]) for row in json_lines(out)] == [*zip(sentences(), wanted)]
    # text has spaces between words
    lines = [json.dumps({"text": " ".join(words)}) + "\n" for words in [*sentences(), []]]
    (tmp_path / "in.jsonl").write_text("".join(lines))
    log = predict(checkpoint, tmp_path / "in.jsonl", "--output-file", out)
    assert [row["tags"] for row in json_lines(out)] == [*wanted, []]
    hub = TupeRobertaModel.from_pretrained(str(checkpoint.parent), checkpoint.name).eval()
    assert [one["tags"] for one in hub.predict_texts(sentences())] == wanted


# ---- Vectors


@pytest.mark.parametrize("name, layer, pooling", [
    ("classification", None, "mean"), ("classification", 1, "cls"), ("post", 2, "cls"),
    ("post", 0, "mean"), ("pre", None, "mean"), ("pre", 1, "mean"),
])  # fmt: skip
def test_vectors_are_those_of_fairseqs_own_model(name, layer, pooling, models, tmp_path):
    data = [] if name == "classification" else [models["data"]]
    words = [models[name], write_csv(tmp_path / "in.csv", ROWS), "--pooling", pooling]
    words += [*(["--data", *data] if data else []), "--output-file", tmp_path / "out.npy"]
    words += [] if layer is None else ["--layer", layer]
    hub, wanted = hub_of(models[name], *data), []
    with torch.no_grad():
        for text in TEXTS:
            ids = ids_of(hub, text)
            last, hiddens = hub.extract_features(ids), hub.extract_features(ids, True)
            hidden = (last if layer is None else hiddens[layer])[0]
            wanted.append(hidden.mean(dim=0) if pooling == "mean" else hidden[0])
    for flags in ([], ["--batch-tokens", 1]):
        log = run_here("tupe-encode", *words, "--text", "text", "--cpu", *flags).stdout
        assert "longer than the model, truncated: 1 rows" in log, log
        found = np.load(tmp_path / "out.npy")
        assert found.dtype == np.float32 and found.shape == (len(TEXTS), 16)
        # rounding of float32
        np.testing.assert_allclose(found, torch.stack(wanted).numpy(), rtol=0, atol=1e-5)
