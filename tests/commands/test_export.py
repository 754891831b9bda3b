"""tupe-export as a user calls it: what is written, and what is refused."""

import json
import os
import re
import resource
import shutil
import sys

import pytest
import torch
import transformers
from safetensors.torch import load_file

from helpers.crafted import folder_with
from helpers.exporting import (
    CHECKPOINT,
    MAX_POSITIONS,
    build,
    export,
    exporting_quickly,
    save,
    write_model,
    write_vocabulary,
)
from helpers.running import REPO
from helpers.vocabularies import convert, write_authors, write_gpt2
from tupe_fairseq.export.folder_files import FILES
from tupe_fairseq.export.folder_tensors import from_folder

LABELS = ["entailment", "neutral", "contradiction"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_vocabulary(tmp_path_factory.mktemp("data") / "data-bin")


@pytest.fixture(scope="module")
def finetuned(data):
    """A folder as tupe-finetune leaves it: all that is needed is beside the checkpoint."""
    folder = data.parent / "finetuned"
    write_model(
        folder, data, {"sentence_classification_head": 3}, rel_pos=True, task="sentence_prediction"
    )
    for name in ("dict.txt", "sentencepiece.bpe.model"):
        shutil.copy(data / name, folder)
    (folder / "label").mkdir()
    (folder / "label" / "dict.txt").write_text("".join(f"{label} 7\n" for label in LABELS))
    report = {"task": "MNLI", "splits": {"train": {"rows": 1234}}}
    (folder / "report.json").write_text(json.dumps(report))
    return folder / CHECKPOINT


def test_a_finetuned_folder_needs_no_flags(finetuned, tmp_path, stranger, monkeypatch):
    monkeypatch.setattr(sys, "executable", stranger)  # the Python that is used without --python
    code, text = export(finetuned, tmp_path / "out", "--license", "mit", "--language", "en,de")
    assert code == 0, text
    assert "AutoModelForSequenceClassification: logits within" in text
    assert "AutoModelForMaskedLM: logits within" in text and "the same token ids" in text
    out = tmp_path / "out"
    written = {os.path.relpath(path, out) for path in out.rglob("*") if path.is_file()}
    assert written == {name for name in FILES if name != "onnx/"}
    assert os.listdir(tmp_path) == ["out"]

    config = json.loads((out / "config.json").read_text())
    assert config["id2label"] == dict(zip("012", LABELS))
    assert config["architectures"] == ["TupeForSequenceClassification"]
    state = torch.load(finetuned)["model"]
    back = from_folder(load_file(str(out / "model.safetensors")), "sentence_classification_head")
    left_out = {"encoder.vocabulary_version", "encoder.sentence_encoder.position_version"}
    assert set(back) == set(state) - left_out
    assert all(torch.equal(back[name], state[name]) for name in back)
    assert (out / "dict.txt").read_bytes() == (finetuned.parent / "dict.txt").read_bytes()

    card = (out / "README.md").read_text()
    front = card.split("---\n")[1].splitlines()
    assert "license: mit" in front and "pipeline_tag: text-classification" in front
    assert front[1:4] == ["language:", "- en", "- de"]
    told = ["TUPE-R", ", ".join(LABELS), "1,234", "trust_remote_code", "revision"]
    for words in (*told, f"transformers {transformers.__version__}", "24 texts of 20 built-in"):
        assert words in card, words
    assert str(tmp_path) not in card


def test_as_roberta(data, tmp_path, stranger):
    """With data elsewhere, in half precision, on given sentences; no code is in the folder."""
    args, model = build(data / "dict.txt", position_encoding="learned")
    checkpoint = save(
        tmp_path / "half", args, model.half(), lambda tensors: {**tensors, **versions(tensors)}
    )
    sample = tmp_path / "sample.txt"
    sample.write_text("The cat likes the house.\n\nNobody.\n")
    out = tmp_path / "out"
    flags = ["--data", data, "--as", "roberta", "--sample", sample, "--python", stranger]
    code, text = export(checkpoint, out, *flags)
    assert code == 0, text
    tensors = load_file(str(out / "model.safetensors"))
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    table = tensors["roberta.embeddings.position_embeddings.weight"]
    assert len(table) == MAX_POSITIONS + 2
    assert not list(out.glob("*.py")) and "2 given sentences" in (out / "README.md").read_text()
    assert "trust_remote_code" not in text + (out / "README.md").read_text()


def versions(tensors):
    """The two records of a state dict, which stay whole numbers."""
    return {name: tensor.long() for name, tensor in tensors.items() if name.endswith("_version")}


def test_regression(data, tmp_path, monkeypatch):
    """The kind of head, without another process: what is compared is tested above."""
    seen = exporting_quickly(monkeypatch)
    checkpoint = write_model(tmp_path / "scores", data, {"mine": 1}, regression_target=True)
    code, text = export(checkpoint, tmp_path / "out", "--data", data)
    assert code == 0, text
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["problem_type"] == "regression" and config["id2label"] == {"0": "score"}
    assert list(seen["reference"].logits) == [
        "AutoModelForSequenceClassification", "AutoModelForMaskedLM",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def tagger(data):
    """As :func:`finetuned`, for tags of words."""
    folder = data.parent / "tagger"
    write_model(folder, data, {"token_tagging_head": 3}, task="token_tagging",
                position_encoding="learned")  # fmt: skip
    for name in ("dict.txt", "sentencepiece.bpe.model"):
        shutil.copy(data / name, folder)
    (folder / "label").mkdir()
    (folder / "label" / "dict.txt").write_text("O 3\nB-my%20place 2\nI-my%20place 1\n")
    report = {"task": "places", "splits": {"train": {"rows": 77}}, "description": {"benchmark": ""}}
    (folder / "report.json").write_text(json.dumps(report))
    return folder / CHECKPOINT


TAGS = {"0": "O", "1": "B-my place", "2": "I-my place"}


def test_tags_of_words(tagger, tmp_path, stranger):
    out = tmp_path / "out"
    code, text = export(tagger, out, "--python", stranger)
    assert code == 0, text
    assert "AutoModelForTokenClassification: logits within" in text
    assert "pipeline('token-classification'" in text
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == ["TupeForTokenClassification"]
    assert config["id2label"] == TAGS and "problem_type" not in config
    card = (out / "README.md").read_text()
    assert "gives each word one of 3 tags" in card and "pipeline_tag: token-classification" in card
    assert "Fine-tuned on places:" in card and "GLUE" not in card and "nyu-mll" not in card


def test_tags_of_words_as_roberta(tagger, tmp_path, stranger):
    out = tmp_path / "out"
    code, text = export(tagger, out, "--as", "roberta", "--python", stranger)
    assert code == 0, text
    assert "AutoModelForTokenClassification: logits within" in text
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == ["RobertaForTokenClassification"]
    assert config["id2label"] == TAGS


def test_labels_of_texts(data, tmp_path, monkeypatch):
    exporting_quickly(monkeypatch)
    checkpoint = write_model(tmp_path / "labels", data, {"mine": 1}, multilabel=True,
                             task="glue_sentence_prediction")  # fmt: skip
    (tmp_path / "dict.txt").write_text("art 3\n")
    code, text = export(checkpoint, tmp_path / "out", "--data", data, "--label-dict",
                        tmp_path / "dict.txt")  # fmt: skip
    assert code == 0, text
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    assert config["id2label"] == {"0": "art"}
    assert "tells which of 1 labels a text has" in (tmp_path / "out" / "README.md").read_text()


# what is done to the fine-tuned folder, the flags, and the words of the error
BAD = {
    "no checkpoint": ("rm checkpoint_best.pt", [], "does not exist; give a checkpoint"),
    "a folder": (None, ["CHECKPOINT/.."], "is not a file; give a checkpoint"),
    "another model's": ("stock", [], "checkpoint of roberta_base, not of tupe_roberta"),
    "truncated": ("truncate", [], "truncated, damaged or not a checkpoint"),
    "no dictionary": ("rm dict.txt", [], "dict.txt is missing; give --data"),
    "no vocabulary": ("rm sentencepiece.bpe.model", [], "give --data, the folder that the"),
    "another vocabulary": ("pieces", [], "does not fit the dictionary"),
    "a shorter dictionary": ("shorter", [], "rows, and .*dict.txt with the built-in symbols"),
    "another dictionary": ("swapped", [], "different vocabulary of the same size"),
    "no dictionary at all": ("binary", [], "dict.txt is not a text file in UTF-8"),
    "labels": ("labels", [], "lists 2 labels, but head sentence_classification_head has 3"),
    "no such head": (None, ["--head", "other"], "--head other is not one of the checkpoint's"),
    "damaged report": ("report", [], "report.json is not a JSON file"),
    "as roberta": (None, ["--as", "roberta"], "--as roberta: .* --position-encoding tupe"),
    "OUT is there": ("out", [], "out is there already; give another --output-dir"),
    "OUT is a file": ("out file", [], "out is there and is not a folder"),
    "OUT in a file": (None, ["--output-dir", "CHECKPOINT/out"], "is not a folder"),
    "license": (None, ["--license", "my own: yes"], "is not an identifier such as mit"),
    "language": (None, ["--language", "English"], "'English' is not a code such as en"),
    "no sample": (None, ["--sample", "nowhere.txt"], "--sample nowhere.txt does not exist"),
    "an empty sample": (None, ["--sample", os.devnull], "is not a file"),
    "no data": (None, ["--data", "nowhere"], "--data nowhere is not a folder"),
    "no labels": (None, ["--label-dict", "nowhere"], "--label-dict nowhere does not exist"),
    "two vocabularies": (
        None, ["--sentencepiece-model", "CHECKPOINT", "--bpe-codes", "CHECKPOINT"],
        "give the files of one kind",
    ),
    "codes of nobody": (None, ["--bpe-codes", "CHECKPOINT"], "is for checkpoints of the TUPE"),
    "no python": (None, ["--python", "nowhere"], "--python nowhere cannot be started"),
}  # fmt: skip


def spoil(folder, how):
    words = (folder / "dict.txt").read_text().splitlines(keepends=True)
    if how.startswith("rm "):
        (folder / how[3:]).unlink()
    elif how == "stock":
        folder_with(folder / "other", arch="roberta_base")
        shutil.copy(folder / "other" / "model.pt", folder / CHECKPOINT)
    elif how == "truncate":
        (folder / CHECKPOINT).write_bytes((folder / CHECKPOINT).read_bytes()[:-99])
    elif how == "pieces":
        path = REPO / "tests" / "compatibility" / "v0_1" / "pieces.model"
        shutil.copy(path, folder / "sentencepiece.bpe.model")
    elif how == "shorter":
        (folder / "dict.txt").write_text("".join(words[:-1]))
    elif how == "swapped":
        (folder / "dict.txt").write_text("".join([words[1], words[0], *words[2:]]))
    elif how == "binary":
        (folder / "dict.txt").write_bytes(b"\xff\xfe 1\n")
    elif how == "labels":
        (folder / "label" / "dict.txt").write_text("yes 1\nno 1\nmadeupword0000 0\n")
    elif how == "report":
        (folder / "report.json").write_text("{")
    elif how == "out":
        (folder.parent / "out").mkdir()
    else:
        (folder.parent / "out").touch()


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case, finetuned, tmp_path):
    how, flags, reason = BAD[case]
    folder = tmp_path / "model"
    shutil.copytree(finetuned.parent, folder)
    if how:
        spoil(folder, how)
    before = sorted(tmp_path.rglob("*"))
    checkpoint = str(folder / CHECKPOINT)
    flags = [flag.replace("CHECKPOINT", checkpoint) for flag in flags]
    if case == "a folder":
        checkpoint, flags = os.path.dirname(checkpoint), []
    code, text = export(checkpoint, tmp_path / "out", *flags)
    lines = [line for line in text.splitlines() if "tupe-export: error:" in line]
    assert code == 2 and len(lines) == 1, text
    assert text.splitlines()[-1] == lines[0] and "Traceback" not in text
    assert re.search(reason, lines[0]), lines[0]
    assert sorted(tmp_path.rglob("*")) == before


def test_bad_heads(data, tmp_path):
    two = write_model(tmp_path / "two", data, {"a": 2, "b": 3})
    code, text = export(two, tmp_path / "out", "--data", data)
    assert code == 2 and "2 classification heads; give --head, one of a, b" in text
    none = write_model(tmp_path / "none", data)
    for flags in (["--head", "a"], ["--label-dict", str(data / "dict.txt")]):
        code, text = export(none, tmp_path / "out", "--data", data, *flags)
        assert code == 2 and f"{flags[0]} {flags[1]}: the checkpoint has no class" in text
    lost = write_model(tmp_path / "lost", data, task="sentence_prediction")
    code, text = export(lost, tmp_path / "out", "--data", data)
    assert code == 2 and "task is sentence_prediction, but it has no classification head" in text
    assert not (tmp_path / "out").exists()


def test_a_head_that_is_not_tied(data, tmp_path):
    args, model = build(data / "dict.txt")

    def untie(tensors):
        weight = "encoder.lm_head.weight"
        return {**tensors, weight: tensors[weight] + 1}

    code, text = export(save(tmp_path, args, model, untie), tmp_path / "out", "--data", data)
    assert code == 2 and "lm_head.weight is not the word embedding" in text


def test_a_padded_vocabulary(data, tmp_path, monkeypatch):
    padded = tmp_path / "padded"
    shutil.copytree(data, padded)
    with open(padded / "dict.txt", "a") as file:
        file.write("madeupword0000 0\nmadeupword0001 0\n")
    checkpoint = write_model(tmp_path / "model", padded)
    code, text = export(checkpoint, tmp_path / "out", "--data", padded)
    assert code == 2 and "padded with 2 words that no text has" in text
    assert "give --padded-vocabulary" in text and not (tmp_path / "out").exists()
    seen = exporting_quickly(monkeypatch)
    code, text = export(checkpoint, tmp_path / "out", "--data", padded, "--padded-vocabulary")
    assert code == 0 and seen["trust"], text


def test_the_authors_codes(tmp_path, monkeypatch):
    """Which make more pieces than dict.txt lists: each has the vector of <unk>."""
    code, text = convert(write_authors(tmp_path / "theirs"), tmp_path / "converted")
    assert code == 0, text
    seen = exporting_quickly(monkeypatch)
    code, text = export(tmp_path / "converted" / "model.pt", tmp_path / "out")
    assert code == 0 and "13 pieces of the vocabulary are not in" in text, text
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    tensors = load_file(str(tmp_path / "out" / "model.safetensors"))
    words = tensors["tupe.embed_tokens.weight"]
    known = seen["reference"].vocabulary
    assert len(words) == config["vocab_size"] == known + 13 == known + config["unlisted_pieces"]
    assert torch.equal(words[-1], words[3])


def test_gpt2s_pieces(tmp_path, monkeypatch):
    flags = write_gpt2(tmp_path / "theirs")
    code, text = convert(flags[:4], tmp_path / "converted")
    assert code == 0, text
    exporting_quickly(monkeypatch)
    words = [tmp_path / "converted" / "model.pt", tmp_path / "out", "--padded-vocabulary"]
    code, text = export(*words)
    assert code == 2 and "--gpt2-encoder-json" in text
    code, text = export(*words, *flags[4:])
    assert code == 0, text
    assert "GPT-2's byte-level BPE" in (tmp_path / "out" / "README.md").read_text()


def test_a_full_disk(finetuned, tmp_path):
    """Stood for by a limit, above which a file cannot grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, before[1]))
    try:
        code, text = export(finetuned, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == 2 and "cannot be written: File too large" in text.splitlines()[-1], text
    assert os.listdir(tmp_path) == []
