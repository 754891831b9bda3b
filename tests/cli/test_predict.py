"""tupe-predict and tupe-encode give the results of fairseq's own model, row for row."""

import contextlib
import csv
import datetime
import decimal
import io
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch

from helpers import independent
from helpers.glue_files import sentence
from helpers.models import (
    HEAD,
    LABELS,
    MAX_POSITIONS,
    MEAN_POOLING,
    hub_of,
    write_fine_tuned,
    write_model,
)
from helpers.rows import read_json_lines, write_csv, write_json_lines
from helpers.running import BIN, ENV, refused, run_here
from helpers.vocabularies import fairseqs_bpe
from tupe_fairseq.data.tokenizer import Tokenizer, copy_vocabulary
from tupe_fairseq.inference.texts import BATCH_TOKENS
from tupe_fairseq.labelled.task import Task

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


def masked_lm_of(checkpoint, *data):
    options = {"task": "masked_lm", "tokens_per_sample": MAX_POSITIONS}
    hub = hub_of(checkpoint.parent, checkpoint.name, *data, **options)
    hub.bpe = fairseqs_bpe((data or [checkpoint.parent])[0])
    return hub


def ids_of(hub, *texts):
    """Token ids of one row, truncated by hand."""
    encode = hub.task.source_dictionary.index
    pieces = [[encode(one) for one in hub.bpe.encode(text.strip()).split()] for text in texts]
    while sum(map(len, pieces)) > MAX_POSITIONS - 2 * len(texts):
        pieces[0 if len(pieces[0]) > len(pieces[-1]) else -1].pop()
    ids = [0, *pieces[0], 2]
    for second in pieces[1:]:
        ids += [2, *second, 2]
    return torch.tensor([ids])


def expected(hub, kind, *texts):
    """The cells that are added to a row, computed by fairseq's own code."""
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


def predict(*words):
    return run_here("tupe-predict", *words, "--cpu").stdout


@pytest.mark.parametrize("name", [*KINDS, "mean"])
def test_every_kind_equals_fairseqs_own_model(name, models, tmp_path):
    kind = "classification" if name == "mean" else name
    source = write_csv(tmp_path / "in.csv", [COLUMNS, *ROWS])
    log = predict(models[name], source, "--output-file", tmp_path / "out.jsonl")
    assert "longer than the model, truncated: 1 rows" in log
    assert "without text: 1 rows" in log
    found = read_json_lines(tmp_path / "out.jsonl")
    assert [[row[column] for column in COLUMNS] for row in found] == ROWS
    hub = masked_lm_of(models[name])
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


def test_scores_of_a_narrow_scale_far_from_zero(models, tmp_path):
    """Seconds since 1970 of one minute: the digits of a score are those of its place in it."""
    folder = shutil.copytree(models["regression"].parent, tmp_path / "seconds")
    report = json.loads((folder / "report.json").read_text())
    report["description"]["scale"] = [1.7e9, 1.7e9 + 60]
    (folder / "report.json").write_text(json.dumps(report))
    hubs = (hub_of(x) for x in (models["regression"].parent, folder))
    usual, seconds = ([one["score"] for one in hub.predict_texts(TEXTS)] for hub in hubs)
    # rounding of both to a part in ten million of the scale
    assert seconds == pytest.approx([1.7e9 + 60 * (x + 2) / 8 for x in usual], rel=0, abs=2e-5)


def test_pairs(models, tmp_path):
    rows = [["The cat likes the house. " * 9, "A dog. " * 4], ["A dog.", ""]]
    source = write_csv(tmp_path / "in.csv", [["question", "answer"], *rows])
    log = predict(models["pairs"], source, "--output-file", tmp_path / "out.jsonl")
    assert "guessed --text 'question', --text2 'answer'" in log, log
    hub = masked_lm_of(models["pairs"])
    for row, texts in zip(read_json_lines(tmp_path / "out.jsonl"), rows):
        label, probability = expected(hub, "classification", *texts)
        assert row["label"] == label
        assert row["probability"] == pytest.approx(probability, rel=0, abs=1e-5)


def test_the_endings_hold_the_same_and_batches_change_nothing(models, monkeypatch, tmp_path):
    first = None
    for name, size in (("out.tsv", 2048), ("out.csv", 1), ("out.jsonl", 99), ("turned.csv", 60)):
        monkeypatch.setitem(BATCH_TOKENS, "cpu", size)
        step = -1 if name == "turned.csv" else 1
        source = write_csv(tmp_path / "in.csv", [COLUMNS, *ROWS[::step]])
        predict(models["classification"], source, "--output-file", tmp_path / name)
        if name.endswith("jsonl"):
            rows = [[*map(str, row.values())] for row in read_json_lines(tmp_path / name)]
        else:
            content = io.StringIO((tmp_path / name).read_bytes().decode())
            tsv = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if name.endswith("tsv") else {}
            header, *rows = csv.reader(content, **tsv)
            assert header == [*COLUMNS, "label", "probability"]
        rows = rows[::step]
        first = first or rows
        assert [row[:4] for row in rows] == [[*row, label[3]] for row, label in zip(ROWS, first)]
        shares = [[float(row[4]) for row in table] for table in (rows, first)]
        assert shares[0] == pytest.approx(shares[1], rel=0, abs=1e-5)


def test_standard_input_and_bad_rows(models, monkeypatch, tmp_path):
    def stdin(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    stdin(b"['a', 'b']")
    assert "\n['a', 'b']\t" in predict(models["classification"], "-")
    lists = write_csv(tmp_path / "in.csv", [["text"], ["['a', 'b']"]])
    assert "in.csv, line 2 (row 0) has a list as text" in refused(
        "predict", models["classification"], lists, "--cpu"
    )
    lists.unlink()
    stdin(b"The cat likes.\nA dog.")
    log = predict(models["classification"], "-")
    hub = masked_lm_of(models["classification"])
    rows = [line.split("\t") for line in log.splitlines() if "\t" in line]
    assert rows[0] == ["text", "label", "probability"]
    texts = ["The cat likes.", "A dog."]
    labels = [expected(hub, "classification", text)[0] for text in texts]
    assert [row[:2] for row in rows[1:]] == [[*pair] for pair in zip(texts, labels)]
    # a bad row stops the command; on request it is left out and counted
    words = ["-", "--output-file", tmp_path / "out.csv"]
    for name, said in (
        ("classification", "standard input, line 2 (row 1) is not UTF-8"),
        ("pairs", "rows of 2 texts need a file, such as .jsonl"),
    ):
        stdin(b"a\n\xe9\n")
        assert said in refused("predict", models[name], *words) and os.listdir(tmp_path) == []
    stdin(b"a\n\xe9\nc\n")
    log = predict(models["classification"], *words, "--skip-bad-rows")
    assert "left out: 1 rows (not UTF-8: 1)" in log
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3


def test_rows_come_out_as_they_went_in(models, tmp_path):
    """Kept are types, null, objects, columns of only some rows, and labels of an earlier model."""
    rows = [
        {"id": 7, "price": 1.5, "ok": True, "text": "A dog.", "none": None, "meta": {"a": [1]}},
        {"text": 12, "label": "mine", "big": 10**25, "half": "\ud800x", "tokens": ["a b", "c"]},
    ]
    source = write_json_lines(tmp_path / "in.jsonl", [*rows, {"text": None}, rows[0]])
    words = [models["classification"], source, "--text", "text"]
    assert "in.jsonl, line 3 (row 2) has null in column 'text'" in refused(
        "predict", *words, "--output-file", tmp_path / "out.jsonl", "--cpu"
    )
    log = predict(*words, "--output-file", tmp_path / "out.jsonl", "--skip-bad-rows")
    assert "the new columns are predicted_row, predicted_label, predicted_probability" in log
    found = read_json_lines(tmp_path / "out.jsonl")
    assert [row.pop("predicted_row") for row in found] == [0, 1, 3]
    assert all({row.pop("predicted_label"), row.pop("predicted_probability")} for row in found)
    assert found == [*rows, rows[0]]
    predict(*words, "--output-file", tmp_path / "out.csv", "--skip-bad-rows")
    with open(tmp_path / "out.csv", encoding="utf-8", newline="") as file:
        of_csv = list(csv.DictReader(file))
    assert [*of_csv[0]] == [
        "id", "price", "ok", "text", "none", "meta", "label", "big", "half", "tokens",
        "predicted_row", "predicted_label", "predicted_probability",
    ]  # fmt: skip
    assert list(of_csv[0].values())[:6] == ["7", "1.5", "true", "A dog.", "", '{"a": [1]}']
    assert list(of_csv[1].values())[3:10] == [
        "12", "", "", "mine", str(10**25), "\\ud800x", '["a b", "c"]',
    ]  # fmt: skip


def test_parquet_with_columns_of_any_type(models, tmp_path):
    columns = {
        "text": ["A dog.", "Nobody."], "when": [datetime.date(2020, 1, 2), None], "n": [1, None],
        "label": [0.5, float("nan")], "bytes": ["\u00e9".encode(), None],
        "at": [datetime.datetime(2020, 1, 2, 3), None], "price": [decimal.Decimal("1.50"), None],
    }  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "in.parquet")
    words = [models["mean"], tmp_path / "in.parquet", "--output-file"]
    predict(*words, tmp_path / "out.csv")
    rows = [line.split(",")[:7] for line in (tmp_path / "out.csv").read_text().splitlines()]
    assert rows[1:] == [
        ["A dog.", "2020-01-02", "1", "0.5", "\u00e9", "2020-01-02T03:00:00", "1.50"],
        ["Nobody.", "", "", "NaN", "", "", ""],
    ]
    predict(*words, tmp_path / "out.jsonl")
    row = read_json_lines(tmp_path / "out.jsonl")[0]
    texts = ["2020-01-02", "\u00e9", "2020-01-02T03:00:00", "1.50"]
    assert [row[name] for name in ("when", "bytes", "at", "price")] == texts
    columns = {"text": ["A dog."], "image": [{"bytes": b"\xff\xd8"}]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "in.parquet")
    assert "row 0 has b'\\xff\\xd8', which is not text; leave that column" in refused(
        "predict", *words, tmp_path / "out.jsonl", "--cpu"
    )


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "txt", "parquet"])
def test_the_screen_gets_the_format_of_the_input(ending, models, tmp_path):
    path = tmp_path / f"in.{ending}"
    if ending == "parquet":
        pyarrow.parquet.write_table(pyarrow.table({"text": ["A dog."]}), path)
    else:
        path.write_text('{"text": "A dog."}' if ending == "jsonl" else "text\nA dog.\n")
    (first,) = [x for x in predict(models["mean"], path).splitlines() if "A dog" in x]
    sign = {"csv": ",", "tsv": "\t", "txt": "\t"}.get(ending)
    assert first.split(sign)[0] == "A dog." if sign else json.loads(first)["text"] == "A dog."


def test_columns_of_the_same_name_keep_it(models, tmp_path):
    source = write_csv(tmp_path / "in.csv", [["text", "note", "note", ""], ["A dog.", *"abc"]])
    predict(models["mean"], source, "--output-file", tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "text,note,note,,label,probability" and lines[1].startswith("A dog.,a,b,c,")


@pytest.mark.parametrize("bom, end", [(b"\xef\xbb\xbf", "\r\n"), (b"", "\n")])
def test_excel_can_read_what_excel_wrote(bom, end, models, tmp_path):
    """The BOM and the line ends stay, except in .jsonl."""
    lines = ["text;city", '"A dog;\nso";K\u00f6ln', "Nobody;", ""]
    (tmp_path / "in.csv").write_bytes(bom + end.join(lines).encode())
    for name in ("out.csv", "out.tsv", "out.jsonl"):
        words = [models["mean"], tmp_path / "in.csv", "--text", "city", "--output-file"]
        if name == "out.tsv":
            words += [tmp_path / name, "--skip-bad-rows"]  # it cannot hold a line end
        predict(*words, *([] if name == "out.tsv" else [tmp_path / name]))
    content = (tmp_path / "out.csv").read_bytes()
    assert content.startswith(bom + b"text,city,label,probability" + end.encode())
    assert content.count(b"\r") == 3 * (end == "\r\n") and not content.startswith(bom * 2 or b" ")
    assert (tmp_path / "out.tsv").read_bytes().startswith(bom + b"text\tcity\trow\tlabel")
    assert (tmp_path / "out.jsonl").read_bytes().startswith(b"{")


def test_texts_are_encoded_in_batches(models, monkeypatch, tmp_path):
    source, calls = write_csv(tmp_path / "in.csv", [COLUMNS, *ROWS]), []
    encode_batch = Tokenizer.encode_batch

    def counted(self, lines):
        calls.append(len(lines))
        return encode_batch(self, lines)

    monkeypatch.setattr(Tokenizer, "encode_batch", counted)
    predict(models["mean"], source, "--output-file", tmp_path / "out.csv")
    run_here("tupe-encode", models["mean"], source, "--output-file", tmp_path / "out.npy", "--cpu")
    assert calls == [len(ROWS)] * 2


def test_labels_are_separated_as_in_training(models, tmp_path):
    """In .csv and .tsv; labels that have the separator need .jsonl."""
    folder = shutil.copytree(models["multilabel"].parent, tmp_path / "model")
    report = json.loads((folder / "report.json").read_text())
    report["description"] |= {"metrics": ["micro_f1"], "selection": "micro_f1"}
    more = {"columns": {"texts": ["text"], "label": "genres"}, "settings": {"label_separator": "|"}}
    (folder / "report.json").write_text(json.dumps(report | more))
    rows = [[text, "a | b c"] for text in TEXTS]
    source = write_csv(tmp_path / "in.csv", [["text", "genres"], *rows])
    log = predict(folder, source, "--report", tmp_path / "r", "--output-file", tmp_path / "o.csv")
    assert "micro F1" in log
    with open(tmp_path / "o.csv", encoding="utf-8", newline="") as file:
        found = {row["labels"] for row in csv.DictReader(file)}
    assert any("|" in one for one in found) and not any("," in one for one in found)
    more["settings"]["label_separator"] = " "
    (folder / "report.json").write_text(json.dumps(report | more))
    words = [folder, source, "--output-file", tmp_path / "o.csv", "--cpu"]
    assert "the label 'b c' has ' ', which separates labels in .csv; " in refused("predict", *words)


def test_standard_input_is_a_stream(models):
    """A line is answered before the next one arrives; closing the output pipe ends the command."""
    process = subprocess.Popen(
        [BIN / "tupe-predict", models["classification"], "-", "--cpu"], env=ENV, bufsize=0,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdin.write(b"A dog.\n")
    assert process.stdout.readline() == b"text\tlabel\tprobability\n"
    assert b"dog." in process.stdout.readline()
    process.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(b"A dog.\n" * 9)
        process.stdin.close()
    errors = process.stderr.read().decode()
    assert process.wait() == 0 and "roken" not in errors, errors


@pytest.mark.parametrize(
    "content, flags, message",
    [
        (b"A dog.\nA\tdog.\n", [], "standard input, line 2 (row 1) has a tab or a line end"),
        (b"\xff\xfeA\0", [], "standard input is not text in UTF-8"),
        (
            b"A dog.\n",
            ["--format", "csv", "--output-file", "x.csv"],
            "--format has no effect with --output-file",
        ),
    ],
)
def test_standard_input_that_does_not_fit(content, flags, message, models, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert message in refused("predict", models["classification"], "-", "--cpu", *flags)


def test_columns_are_those_of_the_training_data(models, tmp_path):
    """If INPUT has these columns; otherwise they are guessed."""
    folder = shutil.copytree(models["classification"].parent, tmp_path / "model")
    report = json.loads((folder / "report.json").read_text())
    report["columns"] = {"texts": ["other"], "label": "x"}
    (folder / "report.json").write_text(json.dumps(report))
    found = []
    for columns, row in (
        (["text", "other"], ["A dog.", "Every bird forgot."]), (["text", "b"], ["A dog.", "-"]),
        (["text", "b"], ["Every bird forgot.", "-"]),
    ):  # fmt: skip
        source, out = write_csv(tmp_path / "in.csv", [columns, row]), tmp_path / "out.jsonl"
        predict(folder / "checkpoint_best.pt", source, "--output-file", out)
        words = [folder / "checkpoint_best.pt", source, "--output-file", tmp_path / "out.npy"]
        run_here("tupe-encode", *words, "--cpu")
        vectors = np.load(tmp_path / "out.npy").tolist()
        found.append((json.loads(out.read_text())["probability"], vectors))
    assert found[0] == found[2] != found[1]
    source = write_csv(tmp_path / "in.csv", [["text", "b"], ["A dog.", "-"]])
    words = [folder, source, "--report", tmp_path / "report", "--cpu"]
    assert "the columns are 'text', 'b'; training had 'x'" in refused("predict", *words)


def test_what_does_not_fit_is_refused(models, tmp_path):
    source = write_csv(tmp_path / "in.csv", [COLUMNS, *ROWS])
    folder = shutil.copytree(models["classification"].parent, tmp_path / "model")
    report = json.loads((folder / "report.json").read_text())
    report["description"]["labels"] = ["a", "b"]
    (folder / "report.json").write_text(json.dumps(report))
    pretrained = write_model(tmp_path / "pretrained", folder, rel_pos=True)
    data = ["--data", models["classification"].parent]
    for checkpoint, flags, message in (
        (models["classification"], ["--text", "nothing"], "has no column 'nothing' (--text)"),
        (models["classification"], ["--output-file", source], "in.csv is also an input"),
        (folder / "checkpoint_best.pt", [], "classification with 2"),
        (models["classification"], ["--data", folder], "has classification ['a', 'b'], but "),
        (pretrained, data, "has no classification head: it is pre-trained only"),
    ):
        words = [checkpoint, source, "--output-file", tmp_path / "out.csv", "--cpu", *flags]
        assert message in refused("predict", *words)
        assert not (tmp_path / "out.csv").exists()


def test_models_and_data_of_what_transformers_trains_now(models, tmp_path):
    """Questions and multiple choice: one line that names the page."""
    source = write_csv(tmp_path / "in.csv", [COLUMNS, *ROWS])
    for task, kind in (("question_answering", "qa"), ("multiple_choice", "choice")):
        own = tmp_path / kind
        shutil.copytree(models["classification"].parent, own)
        report = json.loads((own / "report.json").read_text())
        report["description"] |= {"kind": kind, "stride": 128, "may_lack": True}
        (own / "report.json").write_text(json.dumps(report))
        shutil.copytree(models["data"], own / "model")
        checkpoint = write_model(own / "model", models["data"], task=task)
        for name, *words in (
            ("predict", models["classification"], source, "--data", own),
            ("finetune", "--data", own, models["post"], "--output-dir", tmp_path),
            ("predict", checkpoint, source, "--data", models["data"]),
            ("encode", checkpoint, source, "--output-file", own / "x.npy"),
            ("export", checkpoint, "--output-dir", own / "out"),
            ("prepare-task", "--kind", kind, "--train", source, "--vocabulary", models["data"],
             "--output-dir", own / "out"),
        ):  # fmt: skip
            line = refused(name, *words)
            assert "tupe-export: see examples/export" in line and (kind in line or task in line)
            assert name != "finetune" or f"{own}/report.json describes" in line
        with pytest.raises(ValueError, match="tupe-export: see examples/export"):
            hub_of(checkpoint.parent, checkpoint.name, models["data"])


def test_a_folder_of_a_kind_that_stays_may_have_former_fields(models, tmp_path):
    folder = shutil.copytree(models["mean"].parent, tmp_path / "model")
    report = json.loads((folder / "report.json").read_text())
    report["description"] |= {"stride": 0, "may_lack": False}
    (folder / "report.json").write_text(json.dumps(report))
    assert Task.load(str(folder)) == Task.load(str(models["mean"].parent))


# ---- Tags


def sentences():
    """Sentences of up to 120 words; one word has no printable character."""
    texts = [" ".join(sentence(one) for one in range(n, n + n % 7 * n + 1)) for n in range(9)]
    found = [text.split() for text in texts]
    found[2][1] = "\u200b"
    found.append(["forgot" * 20, "A", "d" * 60])
    return found


def test_every_word_has_the_tag_of_fairseqs_task(vocabulary, monkeypatch, tmp_path):
    source, data, tags = tmp_path / "in.conll", tmp_path / "data", ("O", "B-x", "I-x")
    blocks = [[f"0\t{w}\t{tag}" for w, tag in zip(words, tags * 99)] for words in sentences()]
    source.write_text("\n\n".join("\n".join(block) for block in blocks) + "\n")
    run_here(
        "tupe-prepare-task", "--kind", "tagging", "--train", source, "--valid", source, "--text", 2,
        "--vocabulary", vocabulary, "--output-dir", data, "--workers", 1,
    )  # fmt: skip
    checkpoint = write_model(
        tmp_path / "model", vocabulary, {HEAD: len(tags)}, task="token_tagging",
        classification_head_name=HEAD, num_classes=len(tags), rel_pos=True,
    )  # fmt: skip
    copy_vocabulary(str(data), str(tmp_path / "model"))
    labels = Task.load(str(data)).labels
    wanted = [
        [labels[n] for n in row] for row in independent.predictions(checkpoint, data, "valid")
    ]
    assert [*map(len, wanted)] == [*map(len, sentences())] and len(set(sum(wanted, []))) > 1
    out = tmp_path / "out.jsonl"
    for size in (2048, 1):
        monkeypatch.setitem(BATCH_TOKENS, "cpu", size)
        log = predict(checkpoint, source, "--text", 2, "--output-file", out)
        assert "longer than the model, split into windows: " in log, log
        assert [(row["2"], row["tags"]) for row in read_json_lines(out)] == [
            *zip(sentences(), wanted)
        ]
    # text has spaces between words
    more = ["Ann", "\u3000", "sees", "\u200b"]  # words without characters
    rows = [{"text": " ".join(words)} for words in [*sentences(), [], more]]
    predict(checkpoint, write_json_lines(tmp_path / "in.jsonl", rows), "--output-file", out)
    *found, of_more = (row["tags"] for row in read_json_lines(out))
    assert found == [*wanted, []] and len(of_more) == len(more)
    hub = hub_of(checkpoint.parent)
    predicted = hub.predict_texts([*sentences(), more])
    assert [one["tags"] for one in predicted] == [*wanted, of_more]
    with pytest.raises(ValueError, match="has an empty word"):
        hub.predict_texts([["Ann", ""]])
    # if the layout differs, column 2 has the tags
    source.write_text(source.read_text().replace("0\t", ""))
    assert "seem to be in column '1'; give --text 2 or --text 1" in refused(
        "predict", checkpoint, source, "--output-file", out, "--cpu"
    )
    predict(checkpoint, source, "--text", 1, "--output-file", out)
    assert [row["tags"] for row in read_json_lines(out)] == wanted


# ---- Vectors


@pytest.mark.parametrize(
    "name, pooling", [("classification", "mean"), ("post", "cls"), ("pre", "mean")]
)
def test_vectors_are_those_of_fairseqs_own_model(name, pooling, models, monkeypatch, tmp_path):
    data = [] if name == "classification" else [models["data"]]
    words = [models[name], write_csv(tmp_path / "in.csv", [COLUMNS, *ROWS]), "--pooling", pooling]
    words += [*(["--data", *data] if data else []), "--output-file", tmp_path / "out.npy"]
    hub, wanted = masked_lm_of(models[name], *data), []
    with torch.no_grad():
        for text in TEXTS:
            hidden = hub.extract_features(ids_of(hub, text))[0]
            wanted.append(hidden.mean(dim=0) if pooling == "mean" else hidden[0])
    for size in (2048, 1):
        monkeypatch.setitem(BATCH_TOKENS, "cpu", size)
        log = run_here("tupe-encode", *words, "--text", "text", "--cpu").stdout
        assert "longer than the model, truncated: 1 rows" in log, log
        found = np.load(tmp_path / "out.npy")
        assert found.dtype == np.float32 and found.shape == (len(TEXTS), 16)
        # rounding of float32
        np.testing.assert_allclose(found, torch.stack(wanted).numpy(), rtol=0, atol=1e-5)


def test_vectors_of_a_stream_and_of_rows_that_are_left_out(models, monkeypatch, tmp_path):
    found = []
    for name, content in (("-", b"A dog.\nNobody."), ("in.txt", b"A dog.\n\xe9\nNobody.\n")):
        (tmp_path / "in.txt").write_bytes(content)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        source = name if name == "-" else tmp_path / name
        words = [models["post"], source, "--data", models["data"], "--cpu", "--skip-bad-rows"]
        run_here("tupe-encode", *words, "--output-file", tmp_path / "out.npy")
        found.append(np.load(tmp_path / "out.npy", mmap_mode="r").tolist())
    assert found[0] == found[1] and len(found[0]) == 2
    assert (tmp_path / "out.npy.index").read_text().split() == ["0", "2"]
    (tmp_path / "in.txt").write_bytes(b"A dog.\nEvery bird.\nNobody.\n")
    run_here("tupe-encode", *words, "--output-file", tmp_path / "out.npy")
    assert len(np.load(tmp_path / "out.npy")) == 3 and not (tmp_path / "out.npy.index").exists()
