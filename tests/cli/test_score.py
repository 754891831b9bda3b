"""tupe-score on small models, and what it refuses."""

import argparse
import io
import json
import os
import shutil
import sys

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models.roberta import RobertaModel, base_architecture
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from helpers.exporting import MAX_POSITIONS, build, save, write_model
from helpers.glue_files import write_pretrain_dir
from helpers.scoring import SENTENCES, naive, read_tsv, score, write_pairs
from helpers.vocabularies import write_authors, write_gpt2
from tupe_fairseq.data.subwords import SentencePiece
from tupe_fairseq.models.tupe_roberta import TupeRobertaModel

PAIRS = {
    "one": [("The cat sat on the mat.", "The cat on sat the mat."), ("No fish.", "No fish no.")],
    "two": [("Is it so?", "It so is?"), ("A dog.", "A dog."), ("The cat.", "Cat the.")],
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A data folder, a model of ours and its hub, a stock RoBERTa of the same data, and pairs."""
    folder = tmp_path_factory.mktemp("models")
    data = write_pretrain_dir(folder / "data")
    torch.manual_seed(1)
    write_model(folder / "ours", data, rel_pos=True)
    for name, pairs in PAIRS.items():
        write_pairs(folder / "pairs" / f"{name}.jsonl", pairs, linguistics_term=f"about {name}")
    (folder / "text.txt").write_text("\n".join(SENTENCES) + "\n")
    return folder


@pytest.fixture(scope="module")
def hub(models):
    hub = TupeRobertaModel.from_pretrained(
        str(models / "ours"), "checkpoint_best.pt", str(models / "data"), bpe="sentencepiece",
        sentencepiece_model=str(models / "data" / "sentencepiece.bpe.model"),
        tokens_per_sample=MAX_POSITIONS,
    )  # fmt: skip
    return hub.eval()


@pytest.fixture
def expected(hub):
    """From sentences to their scores, by a loop over fairseq's hub."""
    mask = hub.task.source_dictionary.index("<mask>")

    def scores(sentences):
        return [naive(lambda t: hub.model(t)[0], hub.encode(text), mask) for text in sentences]

    return scores


def test_scores_of_a_file_in_both_formats(models, expected, tmp_path):
    words = [models / "ours" / "checkpoint_best.pt", "--data", models / "data"]
    words += ["--input", models / "text.txt"]
    for name in ("scores.tsv", "scores.jsonl"):
        code, log = score(*words, "--output-file", tmp_path / name, "--results", tmp_path)
        assert code == 0, log
    rows = read_tsv((tmp_path / "scores.tsv").read_text())
    assert [row["sentence"] for row in rows] == SENTENCES
    found = [float(row["score"]) for row in rows]
    # rounding of float32 in a sum of few terms, and of the file's six digits
    assert found == pytest.approx(expected(SENTENCES), rel=0, abs=1e-4)
    records = [json.loads(line) for line in (tmp_path / "scores.jsonl").open()]
    assert [record["score"] for record in records] == found
    results = json.loads((tmp_path / "results.json").read_text())["scores"]["sentences"]
    pieces = sum(record["pieces"] for record in records)
    assert (results["sentences"], results["pieces"]) == (len(SENTENCES), pieces)
    assert results["loss"] == pytest.approx(-sum(found) / pieces, abs=1e-5)
    assert f"{results['pseudo_perplexity']:.2f}" in (tmp_path / "results.md").read_text()
    names = {"scores.tsv", "scores.jsonl", "results.md", "results.json"}
    assert set(os.listdir(tmp_path)) == names


def test_standard_input_to_standard_output(models, expected, monkeypatch):
    text = (models / "text.txt").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    code, log = score(models / "ours" / "checkpoint_best.pt", "--data", models / "data")
    assert code == 0, log
    rows = read_tsv("\n".join(line for line in log.splitlines() if "\t" in line))
    assert [row["sentence"] for row in rows] == SENTENCES
    found = [float(row["score"]) for row in rows]
    assert found == pytest.approx(expected(SENTENCES), rel=0, abs=1e-4)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"A cat.\n\n")))
    code, log = score(models / "ours" / "checkpoint_best.pt", "--data", models / "data")
    assert code == 2 and "standard input, line 2 is empty" in log.splitlines()[-1]


def test_pairs(models, expected, tmp_path):
    """A folder and its files are the same, and as a loop ranks them."""
    words = [models / "ours" / "checkpoint_best.pt", "--data", models / "data"]
    files = [models / "pairs" / f"{name}.jsonl" for name in PAIRS]
    contents = []
    for number, paths in enumerate(([models / "pairs"], files)):
        out = tmp_path / str(number)
        code, log = score(*words, "--pairs", *paths, "--results", out, "--output", out / "x.jsonl")
        assert code == 0, log
        found = json.loads((out / "results.json").read_text())["pairs"]
        contents.append((found, (out / "x.jsonl").read_text()))
    assert contents[0] == contents[1]
    records = [json.loads(line) for line in contents[0][1].splitlines()]
    pairs = [pair for name in PAIRS for pair in PAIRS[name]]
    assert [(record["good"], record["bad"]) for record in records] == pairs
    right = []
    for record, pair in zip(records, pairs):
        both = expected(pair)
        assert [record["score_good"], record["score_bad"]] == pytest.approx(both, rel=0, abs=1e-4)
        right.append(pair[0] != pair[1] and both[0] > both[1])
    assert [record["right"] for record in records] == right
    found = contents[0][0]
    assert (found["all"]["right"], found["all"]["ties"]) == (sum(right), 1)
    assert found["files"]["one"]["accuracy"] == sum(right[:2]) / 2
    assert found["phenomena"]["about two"]["accuracy"] == sum(right[2:]) / 3
    assert "| about one |" in log and "| all pairs |" in log
    assert {path.name for path in tmp_path.iterdir()} == {"0", "1"}


def test_stock_roberta(models, tmp_path):
    """As fairseq's own model computes it, with the same vocabulary."""
    data = shutil.copytree(models / "data", tmp_path / "data")
    dictionary = Dictionary.load(str(data / "dict.txt"))
    dictionary.add_symbol("<mask>")
    args = argparse.Namespace(
        arch="roberta_base", encoder_layers=2, encoder_embed_dim=12, encoder_ffn_embed_dim=20,
        encoder_attention_heads=3, max_positions=MAX_POSITIONS, task="masked_lm",
    )  # fmt: skip
    base_architecture(args)
    task = MaskedLMTask(MaskedLMConfig(tokens_per_sample=MAX_POSITIONS), dictionary)
    model = RobertaModel.build_model(args, task).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    torch.save({"args": args, "model": model.state_dict()}, data / "stock.pt")
    code, log = score(
        data / "stock.pt", "--input", models / "text.txt", "--output", tmp_path / "x.tsv"
    )
    assert code == 0 and "a model of stock fairseq" in log, log
    rows = read_tsv((tmp_path / "x.tsv").read_text())
    pieces = SentencePiece(str(data / "sentencepiece.bpe.model"))
    for row in rows:
        line = f"<s> {' '.join(pieces.split(row['sentence']))} </s>"
        tokens = dictionary.encode_line(line, append_eos=False, add_if_not_exist=False).long()
        assert len(tokens) == int(row["pieces"]) + 2
        wanted = naive(lambda t: model(t)[0], tokens, dictionary.index("<mask>"))
        assert float(row["score"]) == pytest.approx(wanted, rel=0, abs=1e-4)


@pytest.mark.parametrize("write", [write_gpt2, write_authors])
def test_vocabularies_of_other_programs(write, tmp_path):
    pytest.importorskip("sacremoses")
    flags = write(tmp_path / "theirs")
    (tmp_path / "theirs" / "theirs.txt").rename(tmp_path / "theirs" / "dict.txt")
    (tmp_path / "text.txt").write_text("the a the\n")
    code, log = score(
        tmp_path / "theirs" / "theirs.pt", *flags[4:], "--input", tmp_path / "text.txt"
    )
    assert code == 0, log
    assert "\tthe a the" in log


@pytest.fixture
def place(models, tmp_path):
    """A folder with what can be wrong."""
    for name, content in {
        "empty.txt": b"", "blank.txt": b"A cat.\n\nNo fish.\n", "latin.txt": b"A cat.\n\xe9\n",
        "long.txt": b"A cat.\n" + b"the cat " * 20 + b"\n", "control.txt": b"a\xc2\xad\n\xc2\xad\n",
        "cut.txt.gz": b"\x1f\x8b", "list.jsonl": b"[]\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(content)
    shutil.copytree(models / "data", tmp_path / "other")
    lines = (tmp_path / "other" / "dict.txt").read_text().splitlines()
    (tmp_path / "other" / "dict.txt").write_text("\n".join(lines[::-1]) + "\n")
    write_pretrain_dir(tmp_path / "small", vocab_size=100)
    return tmp_path


@pytest.mark.parametrize(
    "words, message",
    [
        (["--input", "HERE/empty.txt"], "HERE/empty.txt is empty; give a sentence in each line"),
        (["--input", "HERE/blank.txt"], "HERE/blank.txt, line 2 is empty; give a sentence"),
        (["--input", "HERE/latin.txt"], "HERE/latin.txt, line 2 is not UTF-8"),
        (["--input", "HERE/long.txt"], "HERE/long.txt, line 2: the sentence has "),
        (["--input", "HERE/control.txt"], "HERE/control.txt, line 2: '\\xad' has no token"),
        (["--pairs", "HERE/absent.jsonl"], "--pairs HERE/absent.jsonl does not exist"),
        (["--pairs", "HERE/list.jsonl"], "HERE/list.jsonl, line 1 is not a JSON object"),
        (["--input", "TEXT", "--data", "HERE/other"], "trained with a different vocabulary"),
        (["--input", "TEXT", "--data", "HERE/small"], "dict.txt and the special tokens are 100"),
        (["--input", "TEXT", "--sentencepiece-model", "HERE/small/sentencepiece.bpe.model"],
         "does not fit"),
        (["--pairs", "HERE/list.jsonl", "--output", "HERE/list.jsonl"], "list.jsonl is an input"),
    ],
)  # fmt: skip
def test_refused(words, message, models, place):
    def placed(text):
        for name, path in (("HERE", place), ("TEXT", "text.txt"), ("PAIRS", "pairs")):
            text = text.replace(name, str(models / path))
        return text

    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    out = [] if "--output" in words else ["--output-file", place / "out.tsv"]
    # of a flag that is given twice the last counts
    code, log = score(
        models / "ours" / "checkpoint_best.pt", "--data", models / "data", *out,
        *(placed(word) for word in words),
    )  # fmt: skip
    assert code == 2 and placed(message) in log.splitlines()[-1], log
    assert "Traceback" not in log
    assert before == {path: path.stat().st_mtime_ns for path in place.rglob("*")}


def test_refused_checkpoints(models, tmp_path):
    words = ["--data", models / "data", "--input", models / "text.txt"]
    args, model = build(models / "data" / "dict.txt")

    def refused(message):
        code, log = score(tmp_path / "checkpoint_best.pt", *words)
        assert code == 2 and message in log.splitlines()[-1], log

    refused("checkpoint_best.pt does not exist")
    save(tmp_path, {**args, "arch": "transformer"}, model)
    refused("arch is transformer, neither one of")

    def without(tensors):
        return {name: x for name, x in tensors.items() if not name.endswith("lm_head.bias")}

    save(tmp_path, args, model, without)
    refused("has no LM head, which predicts masked tokens: encoder.lm_head.bias missing")

    def no_number(tensors):
        return {**tensors, "encoder.lm_head.bias": tensors["encoder.lm_head.bias"] / 0}

    save(tmp_path, args, model, no_number)
    refused("holds NaN or infinity")
    (tmp_path / "checkpoint_best.pt").write_text("no checkpoint")
    refused("is truncated, damaged or not a checkpoint")


def test_long_sentences_can_be_cut(models, place, expected):
    text = "the cat " * 20
    code, log = score(
        models / "ours" / "checkpoint_best.pt", "--data", models / "data", "--cut",
        "--input", place / "long.txt", "--output-file", place / "x.jsonl",
    )  # fmt: skip
    assert code == 0 and "1 sentences were cut to what the model takes" in log
    records = [json.loads(line) for line in (place / "x.jsonl").open()]
    assert records[1]["pieces"] == MAX_POSITIONS - 2 and records[1]["sentence"] == text.strip()
