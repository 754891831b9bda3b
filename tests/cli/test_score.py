"""tupe-score: sentences and minimal pairs, against loops over the training model."""

import io
import math
import random
import shutil
import sys

import numpy as np
import pytest
import torch
from scipy import stats

from helpers.glue_files import write_pretrain_dir
from helpers.models import CHECKPOINT, MAX_POSITIONS, build, hub_of, save, write_model
from helpers.rows import read_json_lines, write_json_lines
from helpers.running import VERSIONS, refused, run_here
from helpers.vocabularies import fairseqs_bpe, write_stock
from tupe_fairseq.checkpoint.model import Model
from tupe_fairseq.data.subwords import SentencePiece
from tupe_fairseq.files import read_json
from tupe_fairseq.scoring.minimal_pairs import (
    accuracy_page,
    pair_accuracies,
    pair_files,
    read_pairs,
)
from tupe_fairseq.scoring.score import pseudo_likelihoods, score_file

SENTENCES = [
    "The cat sat on the mat.", "No fish.", "The cat sat on the mat.", "Is it so?",
    "A dog saw the cat.", "No cat sat.", "The fish is on a mat, it is.",
]  # fmt: skip
PAIRS = {
    "one": [("The cat sat on the mat.", "The cat on sat the mat."), ("No fish.", "No fish no.")],
    "two": [("Is it so?", "It so is?"), ("A dog.", "A dog."), ("The cat.", "Cat the.")],
}


def naive(logits, tokens, mask):
    """The sum of the log-probabilities of the tokens (L), one masked copy (1, L) at a time."""
    found = 0.0
    with torch.no_grad():
        for place in range(1, len(tokens) - 1):
            masked = tokens.clone()
            masked[place] = mask
            row = logits(masked[None])[0, place].double()
            found += torch.log_softmax(row, 0)[tokens[place]].item()
    return found


def write_pairs(path, pairs, **columns):
    """Write a file of minimal pairs in BLiMP's format."""
    path.parent.mkdir(exist_ok=True)
    rows = [{"sentence_good": good, "sentence_bad": bad, **columns} for good, bad in pairs]
    write_json_lines(path, rows)


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


# ---- Sentences


@pytest.mark.parametrize(
    "options",
    [{"position_encoding": "tupe", "rel_pos": True}, {"position_encoding": "rope"},
     {"position_encoding": "enformer"},
     {"rel_pos": True, "position_encoding": "learned", "encoder_normalize_before": True},
     {"untie_weights_roberta": True, "activation_fn": "relu"}],
    ids=lambda options: " ".join(map(str, options.values())),
)  # fmt: skip
def test_scores_are_those_of_a_loop_over_the_training_model(options, models, tmp_path):
    args, model = build(models / "data" / "dict.txt", **options)
    loaded = Model.read(str(save(tmp_path, args, model)), str(models / "data" / "dict.txt"))
    model.eval().double()
    draw, mask = random.Random(3), loaded.symbols.index("<mask>")
    given = [[0, *draw.choices(range(4, mask), k=n), 2] for n in (1, 3, 7, 3, 22, 7, 1)]
    given += [given[2], given[4]]
    wanted = [naive(lambda t: model(t)[0], torch.tensor(tokens), mask) for tokens in given]
    for batch_tokens in (1, 40, 10_000):
        found = pseudo_likelihoods(loaded.masked_logits, given, mask, batch_tokens=batch_tokens)
        # float32's rounding of a sum of 22 terms of about 5
        assert found == pytest.approx(wanted, rel=0, abs=1e-4)
    # fairseq's LM head computes gelu in float32, whatever the model's dtype
    for module in (loaded.encoder, loaded.lm_head):
        module.double()
    found = pseudo_likelihoods(loaded.masked_logits, given[::-1], mask, batch_tokens=40)
    assert found == pytest.approx(wanted[::-1], rel=0, abs=5e-6)


@pytest.fixture
def expected(models):
    """A function that scores sentences by a loop over fairseq's hub."""
    words = models / "ours", CHECKPOINT, models / "data"
    hub = hub_of(*words, tokens_per_sample=MAX_POSITIONS)
    hub.bpe = fairseqs_bpe(models / "data")
    mask = hub.task.source_dictionary.index("<mask>")

    def scores(sentences):
        return [naive(lambda t: hub.model(t)[0], hub.encode(text), mask) for text in sentences]

    return scores


def score(models, *words):
    """Run tupe-score on the CPU; returns what it printed. Later flags win."""
    words = [models / "ours" / CHECKPOINT, "--data", models / "data", "--cpu", *words]
    return run_here("tupe-score", *words).stdout


def read_tsv(text):
    names, *rows = (line.split("\t") for line in text.splitlines() if "\t" in line)
    return [dict(zip(names, row)) for row in rows]


def test_sentences(models, expected, tmp_path, monkeypatch):
    """The scores are the same from a file, to .tsv and .jsonl, and from standard input."""
    source = [models / "text.txt"]
    for name in ("scores.tsv", "scores.jsonl"):
        score(models, *source, "--output-file", tmp_path / name)
    rows = read_tsv((tmp_path / "scores.tsv").read_text())
    assert [row["sentence"] for row in rows] == SENTENCES
    found = [float(row["score"]) for row in rows]
    # rounding of float32 in a sum of few terms, and of the file's six digits
    assert found == pytest.approx(expected(SENTENCES), rel=0, abs=1e-4)
    records = read_json_lines(tmp_path / "scores.jsonl")
    assert [record["score"] for record in records] == found
    files = {"data": str(models / "data"), "input": source[0]}
    results = score_file(str(models / "ours"), cpu=True, **files)["scores"]["sentences"]
    pieces = sum(record["tokens"] for record in records)
    assert (results["sentences"], results["tokens"]) == (len(SENTENCES), pieces)
    assert results["loss"] == pytest.approx(-sum(found) / pieces, abs=1e-5)
    text = (models / "text.txt").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert read_tsv(score(models)) == rows


def test_stock_roberta(models, tmp_path):
    """The scores are those of fairseq's own model with the same vocabulary."""
    data = shutil.copytree(models / "data", tmp_path / "data")
    lines = (data / "dict.txt").read_text().splitlines()
    model = write_stock(data, lines, MAX_POSITIONS)
    words = [data / "theirs.pt", "--cpu", "--input", models / "text.txt"]
    log = run_here("tupe-score", *words).stdout
    assert "a model of stock fairseq" in log
    symbols = ["<s>", "<pad>", "</s>", "<unk>", *(line.split()[0] for line in lines), "<mask>"]
    pieces = SentencePiece(str(data / "sentencepiece.bpe.model"))
    for row in read_tsv(log):
        words = ["<s>", *pieces.split(row["sentence"]), "</s>"]
        tokens = torch.tensor([symbols.index(w if w in symbols else "<unk>") for w in words])
        assert len(tokens) == int(row["tokens"]) + 2
        wanted = naive(lambda t: model(t)[0], tokens, len(symbols) - 1)
        assert float(row["score"]) == pytest.approx(wanted, rel=0, abs=1e-4)


def test_a_blank_line_keeps_its_row(models, tmp_path):
    """Also in vectors, so that line n of a text is row n of both."""
    text = tmp_path / "text.txt"
    text.write_text("A cat.\n\n \nNo fish.\n")
    log = score(models, "--input", text)
    rows = read_tsv(log)
    assert [row["sentence"] for row in rows] == ["A cat.", "", "", "No fish."]
    assert [(float(row["score"]), row["tokens"]) for row in rows[1:3]] == [(0, "0")] * 2
    assert "without text: 2 rows, which have the score 0" in log
    bits = -sum(float(row["score"]) for row in rows) / sum(int(row["tokens"]) for row in rows)
    assert f"loss {bits / math.log(2):.3f} bits" in log
    words = [models / "ours" / CHECKPOINT, text, "--data", models / "data", "--cpu"]
    log = run_here("tupe-encode", *words, "--output-file", tmp_path / "out.npy").stdout
    assert len(np.load(tmp_path / "out.npy")) == 4 and "without text: 2 rows" in log


def test_what_is_refused_or_cut(models, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "long.txt").write_text("A cat.\n" + "the cat " * 20 + "\n")
    (tmp_path / "rows.txt").write_text('{"text": "A cat."}\n')
    (tmp_path / "rows.csv").write_text("a,b\nA cat.,A dog.\n")
    other = shutil.copytree(models / "data", tmp_path / "other")
    lines = (other / "dict.txt").read_text().splitlines()
    (other / "dict.txt").write_text("\n".join(lines[::-1]) + "\n")
    state = torch.load(models / "ours" / CHECKPOINT, weights_only=False)
    state["model"] = {name: x for name, x in state["model"].items() if "lm_head" not in name}
    torch.save(state, tmp_path / "headless.pt")
    ours, source = models / "ours" / CHECKPOINT, [models / "text.txt"]
    for checkpoint, flags, message in (
        (ours, [tmp_path / "blank.txt"], "blank.txt has no text"),
        (ours, [], "standard input has no rows"),
        (ours, [tmp_path / "rows.txt"], "rows.txt holds JSON"),
        (ours, [tmp_path / "rows.csv"], "rows.csv is a file of rows; give a .txt"),
        (ours, [*source, "--report", tmp_path], "--report needs --pairs"),
        (ours, [tmp_path / "long.txt"], "long.txt, line 2: the sentence has "),
        (ours, [*source, "--data", other], "trained with a different vocabulary"),
        (tmp_path / "headless.pt", source, "has no LM head, which predicts masked tokens"),
    ):
        assert message in refused("score", checkpoint, "--data", models / "data", *flags)
    vectors = []
    for checkpoint in (ours, tmp_path / "headless.pt"):  # texts are encoded without an LM head, too
        words = [checkpoint, *source, "--data", models / "data", "--cpu"]
        run_here("tupe-encode", *words, "--output-file", tmp_path / "out.npy")
        vectors.append(np.load(tmp_path / "out.npy"))
    assert np.array_equal(*vectors)
    log = score(models, "--cut", tmp_path / "long.txt")
    assert "1 sentences were cut to what the model takes" in log
    assert [row["tokens"] for row in read_tsv(log)][1] == str(MAX_POSITIONS - 2)


# ---- Minimal pairs


def test_pairs(models, expected, tmp_path):
    """The pairs are ranked as the loop ranks them."""
    words = ["--pairs", models / "pairs", "--report", tmp_path]
    score(models, *words, "--output-file", tmp_path / "x.jsonl")
    results = read_json(tmp_path / "results.json")
    assert results["versions"] == VERSIONS and results["machine"]
    found = results["pairs"]
    records = read_json_lines(tmp_path / "x.jsonl")
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
    score_file(models / "ours", pairs=models / "pairs", data=models / "data", report=tmp_path / "y")
    assert read_json(tmp_path / "y" / "results.json")["pairs"] == found


def test_accuracy_by_hand():
    found = pair_accuracies([
        ("b", "island", -1.0, -2.0), ("b", "island", -2.0, -1.0), ("b", "", -3.0, -3.0),
        ("b", "npi", 0.0, -9.0), ("a", "npi", -1.0, -2.0),
    ])  # fmt: skip
    # a tie is wrong
    assert found["all"] == {
        "pairs": 5, "right": 3, "ties": 1, "accuracy": 0.6,
        "interval": pytest.approx([*stats.binomtest(3, 5).proportion_ci(method="wilson")]),
    }  # fmt: skip
    assert found["phenomena"]["island"]["pairs"] == 2 and found["phenomena"]["npi"]["right"] == 2
    assert "| all pairs | 60.0 (23.1 to 88.2) | 5 | 1 |" in accuracy_page("x", found)
    assert found["phenomena"]["npi"]["accuracy"] == 1  # two of two are no proof
    assert "| npi | 100.0 (34.2 to 100.0) | 2 | 0 |" in accuracy_page("x", found)


def test_files_and_columns(tmp_path):
    """Files are found at any depth of a folder; two with the same name stay apart."""
    pairs = [("A cat.", "Cat a."), ("No fish.", "No fish no.")]
    write_pairs(tmp_path / "a" / "x.jsonl", pairs, linguistics_term="npi")
    write_pairs(tmp_path / "b" / "x.jsonl", pairs[:1])
    files = pair_files([str(tmp_path), str(tmp_path / "a" / "x.jsonl")])
    assert list(files) == ["x", str(tmp_path / "b" / "x")]
    found = list(read_pairs(files))
    assert [tuple(sentences) for _, sentences, _ in found] == [*pairs, pairs[0]]
    assert found[1][2] == {"file": "x", "row": 2, "phenomenon": "npi"}
    (pair,) = read_pairs({"x": files["x"]}, per_file=1)
    assert tuple(pair[1]) == pairs[0]
    (tmp_path / "a" / "x.jsonl").write_text('{"good": "A cat."}')
    with pytest.raises(ValueError, match=r"has no column 'sentence_good' .--pairs."):
        list(read_pairs(files))
