"""What tupe-export wrote, and what transformers then trained, comes back as a checkpoint."""

import json
import os

import pytest
import torch

from helpers.exporting import MEAN_POOLING, export, write_model, write_vocabulary
from helpers.running import call_program, run
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.commands import convert

TOKENS = [[0, 7, 9, 11, 20, 2], [0, 30, 2, 1, 1, 1]]
# as Trainer does it: a step, then the model and the tokenizer in one folder, without dict.txt
FINE_TUNING = f"""
import sys, torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
source, target = sys.argv[1:]
model = AutoModelForSequenceClassification.from_pretrained(
    source, trust_remote_code=True, id2label={{0: "no", 1: "yes", 2: "both"}}, num_labels=3,
    classifier_pooling="mean",
)
tokens = torch.tensor({TOKENS})
step = torch.optim.SGD(model.parameters(), lr=0.1)
model(tokens, attention_mask=tokens.ne(1).long(), labels=torch.tensor([1, 2])).loss.backward()
step.step()
model.save_pretrained(target, max_shard_size="9KB")
AutoTokenizer.from_pretrained(source, trust_remote_code=True).save_pretrained(target)
logits = model.eval()(tokens, attention_mask=tokens.ne(1).long()).logits.detach()
torch.save(logits, target + "/logits.pt")
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_vocabulary(tmp_path_factory.mktemp("vocabulary") / "data")


def back(folder, data, *flags):
    """The folder that tupe-convert makes, and what it says."""
    out = folder.parent / f"{folder.name}-back"
    pieces = data / "sentencepiece.bpe.model"
    words = ["--checkpoint", folder, "--output-dir", out, "--sentencepiece-model", pieces]
    code, text = call_program(convert.main, [*words, *flags])
    assert code == 0, text
    return out, text


def assert_same(path, other):
    found, expected = torch.load(path)["model"], torch.load(other)["model"]
    assert set(found) == set(expected)
    assert [name for name in expected if not found[name].equal(expected[name])] == []


def test_a_pre_trained_model_and_what_transformers_made_of_it(data, tmp_path, stranger):
    checkpoint = write_model(tmp_path / "run", data, rel_pos=True, encoder_normalize_before=True)
    code, text = export(checkpoint, tmp_path / "a", "--data", data, "--python", stranger)
    assert code == 0, text
    out, _ = back(tmp_path / "a", data)
    assert_same(out / "model.pt", checkpoint)
    assert (out / "dict.txt").read_bytes() == (data / "dict.txt").read_bytes()
    hub = TupeRobertaModel.from_pretrained(str(out)).eval()
    line = "The cat is on the mat."
    ids = hub.encode(line)

    (tmp_path / "tune.py").write_text(FINE_TUNING)
    cache = {"HF_MODULES_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    tuned = tmp_path / "tuned"
    run(stranger, tmp_path / "tune.py", tmp_path / "a", tuned, env=cache)
    assert not (tuned / "dict.txt").exists() and not (tuned / "model.safetensors").exists()
    out, text = back(tuned, data)
    assert "THE FOLDER HAS NO LM HEAD" in text
    hub = TupeRobertaModel.from_pretrained(str(out)).eval()
    found = hub.predict("sentence_classification_head", torch.tensor(TOKENS), return_logits=True)
    torch.testing.assert_close(found, torch.load(tuned / "logits.pt"), rtol=1e-5, atol=1e-5)
    assert (out / "label" / "dict.txt").read_text() == "no 1\nyes 1\nboth 1\n"
    assert hub.encode(line).equal(ids)


def test_a_fine_tuned_model(data, tmp_path, stranger):
    """Two heads, of which one is exported; they get the mean of a text's features."""
    heads = {"mine": 2, "other": 3}
    checkpoint = write_model(tmp_path / "run", data, heads, tie_cls=True, **MEAN_POOLING)
    (tmp_path / "labels").write_text("good 5\nbad 3\n")
    flags = ["--head", "mine", "--label-dict", tmp_path / "labels", "--python", stranger]
    code, text = export(checkpoint, tmp_path / "a", "--data", data, *flags)
    assert code == 0, text
    os.remove(tmp_path / "a" / "dict.txt")
    out, _ = back(tmp_path / "a", data)
    state = torch.load(checkpoint)["model"]
    found = torch.load(out / "model.pt")["model"]
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    hub = TupeRobertaModel.from_pretrained(str(out))
    assert config["classifier_pooling"] == hub.model.args.pooling == "mean"
    kept = {name for name in state if not name.startswith("classification_heads.other.")}
    assert set(found) == kept and all(found[name].equal(state[name]) for name in kept)
    assert (out / "label" / "dict.txt").read_text() == "good 1\nbad 1\n"


def test_a_roberta(data, tmp_path, stranger):
    checkpoint = write_model(tmp_path / "run", data, position_encoding="learned")
    flags = ["--data", data, "--as", "roberta", "--python", stranger]
    code, text = export(checkpoint, tmp_path / "a", *flags)
    assert code == 0, text
    out, _ = back(tmp_path / "a", data)
    assert_same(out / "model.pt", checkpoint)
