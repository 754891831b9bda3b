"""tupe-score: sentences, minimal pairs and lengths, against a loop over fairseq's own model."""

import argparse
import io
import json
import shutil
import sys

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models.roberta import RobertaModel, base_architecture
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from helpers.exporting import MAX_POSITIONS, build, save, write_model
from helpers.glue_files import write_pretrain_dir
from helpers.running import call_program
from helpers.scoring import naive, write_pairs
from tupe_fairseq.data.subwords import SentencePiece
from tupe_fairseq.models.tupe_roberta import TupeRobertaModel

SENTENCES = [
    "The cat sat on the mat.", "No fish.", "The cat sat on the mat.", "Is it so?",
    "A dog saw the cat.", "No cat sat.", "The fish is on a mat, it is.",
]  # fmt: skip
PAIRS = {
    "one": [("The cat sat on the mat.", "The cat on sat the mat."), ("No fish.", "No fish no.")],
    "two": [("Is it so?", "It so is?"), ("A dog.", "A dog."), ("The cat.", "Cat the.")],
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A data folder, a model, sentences and pairs."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(1)
    write_model(folder / "ours", write_pretrain_dir(folder / "data"), rel_pos=True)
    for name, pairs in PAIRS.items():
        write_pairs(folder / "pairs" / f"{name}.jsonl", pairs, linguistics_term=f"about {name}")
    (folder / "text.txt").write_text("\n".join(SENTENCES) + "\n")
    return folder


@pytest.fixture
def expected(models):
    """From sentences to their scores, by a loop over fairseq's hub."""
    hub = TupeRobertaModel.from_pretrained(
        str(models / "ours"), "checkpoint_best.pt", str(models / "data"), bpe="sentencepiece",
        sentencepiece_model=str(models / "data" / "sentencepiece.bpe.model"),
        tokens_per_sample=MAX_POSITIONS,
    ).eval()  # fmt: skip
    mask = hub.task.source_dictionary.index("<mask>")

    def scores(sentences):
        return [naive(lambda t: hub.model(t)[0], hub.encode(text), mask) for text in sentences]

    return scores


def score(models, *words):
    """tupe-score on the CPU; later flags win."""
    checkpoint = models / "ours" / "checkpoint_best.pt"
    return call_program("score", [checkpoint, "--data", models / "data", "--cpu", *words])


def read_tsv(text):
    names, *rows = (line.split("\t") for line in text.splitlines() if "\t" in line)
    return [dict(zip(names, row)) for row in rows]


def test_sentences(models, expected, tmp_path, monkeypatch):
    """The same of a file as .tsv and .jsonl, and of standard input."""
    source = ["--input", models / "text.txt"]
    for name in ("scores.tsv", "scores.jsonl"):
        code, log = score(models, *source, "--output", tmp_path / name, "--results", tmp_path)
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
    text = (models / "text.txt").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    code, log = score(models)
    assert code == 0 and read_tsv(log) == rows, log


def test_pairs(models, expected, tmp_path):
    """A folder and its files are the same, and as a loop ranks them."""
    files = [models / "pairs" / f"{name}.jsonl" for name in PAIRS]
    contents = []
    for number, paths in enumerate(([models / "pairs"], files)):
        out = tmp_path / str(number)
        code, log = score(models, "--pairs", *paths, "--results", out, "--output", out / "x.jsonl")
        assert code == 0, log
        found = json.loads((out / "results.json").read_text())["pairs"]
        contents.append((found, (out / "x.jsonl").read_text()))
    assert contents[0] == contents[1]
    records = [json.loads(line) for line in contents[0][1].splitlines()]
    right = []
    for record, pair in zip(records, PAIRS["one"] + PAIRS["two"], strict=True):
        both = expected(pair)
        assert (record["good"], record["bad"]) == pair
        assert [record["score_good"], record["score_bad"]] == pytest.approx(both, rel=0, abs=1e-4)
        right.append(pair[0] != pair[1] and both[0] > both[1])
    assert [record["right"] for record in records] == right
    assert (found["all"]["right"], found["all"]["ties"]) == (sum(right), 1)
    assert found["files"]["one"]["accuracy"] == sum(right[:2]) / 2
    assert found["phenomena"]["about two"]["accuracy"] == sum(right[2:]) / 3


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
    words = [data / "stock.pt", "--cpu", "--input", models / "text.txt"]
    code, log = call_program("score", words)
    assert code == 0 and "a model of stock fairseq" in log, log
    pieces = SentencePiece(str(data / "sentencepiece.bpe.model"))
    for row in read_tsv(log):
        line = f"<s> {' '.join(pieces.split(row['sentence']))} </s>"
        tokens = dictionary.encode_line(line, append_eos=False, add_if_not_exist=False).long()
        assert len(tokens) == int(row["pieces"]) + 2
        wanted = naive(lambda t: model(t)[0], tokens, dictionary.index("<mask>"))
        assert float(row["score"]) == pytest.approx(wanted, rel=0, abs=1e-4)


def test_what_is_refused_or_cut(models, tmp_path):
    (tmp_path / "blank.txt").write_text("A cat.\n\nNo fish.\n")
    (tmp_path / "long.txt").write_text("A cat.\n" + "the cat " * 20 + "\n")
    other = shutil.copytree(models / "data", tmp_path / "other")
    lines = (other / "dict.txt").read_text().splitlines()
    (other / "dict.txt").write_text("\n".join(lines[::-1]) + "\n")
    args, model = build(models / "data" / "dict.txt")
    save(tmp_path, args, model, lambda x: {k: v for k, v in x.items() if "lm_head" not in k})
    headless = call_program("score", [tmp_path / "checkpoint_best.pt", "--data", models / "data"])
    source = ["--input", models / "text.txt"]
    for (code, log), message in (
        (score(models, "--input", tmp_path / "blank.txt"), "blank.txt, line 2 is empty"),
        (score(models, "--input", tmp_path / "long.txt"), "long.txt, line 2: the sentence has "),
        (score(models, *source, "--data", other), "trained with a different vocabulary"),
        (score(models, *source, "--lengths", "12,25"), f"takes, {MAX_POSITIONS}; "),
        (headless, "has no LM head, which predicts masked tokens"),
    ):
        assert code == 2 and message in log.splitlines()[-1], log
    code, log = score(models, "--cut", "--input", tmp_path / "long.txt")
    assert code == 0 and "1 sentences were cut to what the model takes" in log
    assert [row["pieces"] for row in read_tsv(log)][1] == str(MAX_POSITIONS - 2)
