"""Fine-tuning on tags of words: windows, loss, metrics over whole sentences."""

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fairseq.logging import metrics as logged

from helpers import independent, training
from helpers.glue_data import EOS, FIRST, write_bin, write_task
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.labelled.task import Task

HEAD, LAST = "token_tagging_head", "checkpoint_last.pt"
PAD, UNKNOWN = 1, 3
FLAGS = [
    *training.MODEL, *training.OPTIMIZATION, "--rel-pos", "--task", "token_tagging", "--criterion",
    "token_tagging", "--max-positions", 32, "--batch-size", 8, "--no-epoch-checkpoints",
]  # fmt: skip
TASK = Task(
    "names", "tagging", ("O", "B-a b", "I-a b", "B-c", "I-c"), 1, ("train", "valid", "test"),
    ("entity_f1", "accuracy"), "entity_f1",
)  # fmt: skip


def tag(words, place):
    """Consecutive words that begin with 0 .. 4 are an entity of type 0, with 5 .. 9 of type 1."""
    kind = words[place][0] // 5
    if kind > 1:
        return 0
    return 1 + 2 * kind + (place > 0 and words[place - 1][0] // 5 == kind)


def sentences():
    """Each word is a list of tokens, the first of which determines its tag."""
    draw, splits = random.Random(2), {}
    for split, number in (("train", 20), ("valid", 12), ("test", 5)):
        splits[split] = []
        for _ in range(number):
            lengths = [draw.randint(1, 3) for _ in range(draw.randint(1, 30))]
            words = [draw.choices(range(20), k=length) for length in lengths]
            splits[split].append((words, [tag(words, place) for place in range(len(words))]))
    return splits


ROWS = sentences()


def write(folder):
    """Write sentences of up to 90 tokens, for a model of 32; the test set has no tags."""
    splits = {**ROWS, "test": [(words, None) for words, _ in ROWS["test"]]}
    write_task(folder, TASK, splits, [f"w{n} 1" for n in range(20)], max_positions=32)
    none = [sum(([UNKNOWN, *[PAD] * (len(word) - 1)] for word in x), []) for x, _ in ROWS["test"]]
    write_bin(folder / "label" / "test", [[*row, EOS] for row in none])
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("names") / "data")


def build(folder, *flags):
    """Task, model with random weights and without dropout, criterion."""
    task, model, criterion = training.build(folder, *FLAGS, *training.DECAY, *flags)
    torch.manual_seed(6)  # this model finds some entities
    for parameter in model.eval().parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return task, model, criterion


def windows(sample):
    return zip(sample["row"].tolist(), sample["id"].tolist())


def test_every_word_is_in_one_window_with_its_tag(folder):
    task, _, _ = build(folder)
    found = {}
    for sample in training.batches(task, "train", 4):
        tokens, starts = (sample["net_input"][key] for key in ("src_tokens", "word_starts"))
        assert tokens.shape == starts.shape and tokens.size(1) <= 32
        assert (tokens[:, 0] == 0).all() and (tokens.eq(EOS).sum(1) == 1).all()
        assert sample["net_input"]["src_lengths"].tolist() == tokens.ne(PAD).sum(1).tolist()
        targets = sample["target"].split(starts.sum(1).tolist())
        for row, key in enumerate(windows(sample)):
            words = tokens[row, starts[row]] - FIRST
            found[key] = list(zip(words.tolist(), targets[row].tolist()))
    assert len(found) > len(ROWS["train"])
    for number, (words, tags) in enumerate(ROWS["train"]):
        parts = [found[key] for key in sorted(found) if key[0] == number]
        assert sum(parts, []) == [(word[0], tag) for word, tag in zip(words, tags)]


@pytest.mark.parametrize("size", [1, 5])
def test_loss_and_metrics_are_of_whole_sentences(size, folder):
    task, model, criterion = build(folder, "--metrics", "accuracy,entity_f1")
    criterion.eval()
    total, logits = 0.0, {}
    with torch.no_grad(), logged.aggregate(new_root=True) as aggregate:
        for sample in training.batches(task, "valid", size):
            loss, _, log = criterion(model, sample)
            criterion.reduce_metrics([log])
            total += loss.item()
            net_input = sample["net_input"]
            for row, key in enumerate(windows(sample)):
                # each window alone; the head runs on all tokens, and the words' part is taken
                tokens = net_input["src_tokens"][row : row + 1, : net_input["src_lengths"][row]]
                whole = model(tokens, classification_head_name=HEAD)[0][0]
                logits[key] = whole[net_input["word_starts"][row, : len(whole)]]
    logits = torch.cat([logits[key] for key in sorted(logits)])
    tags = [tags for _, tags in ROWS["valid"]]
    targets = torch.tensor(sum(tags, []))
    expected = F.cross_entropy(logits.double(), targets, reduction="sum").item()
    assert total == pytest.approx(expected, rel=1e-5)
    values = aggregate.get_smoothed_values()
    assert values["loss"] == pytest.approx(expected / len(targets) / np.log(2), abs=1e-3)
    predictions = logits.argmax(1)
    accuracy = independent.metric("accuracy", predictions, targets)
    assert values["accuracy"] == pytest.approx(100 * accuracy) and 0 < accuracy < 1
    found = predictions.split([len(row) for row in tags])
    sides = [[[TASK.labels[tag] for tag in row] for row in side] for side in (found, tags)]
    expected = 100 * independent.metric("entity_f1", *sides)
    assert values["entity_f1"] == pytest.approx(expected) and expected > 0


def test_training_counts_words(folder):
    task, model, criterion = build(folder, "--class-weights", "1,2,3,4,5")
    sample = training.batches(task, "train", 6)[0]
    loss, count, log = criterion.train()(model, sample)
    logits, _ = model(**sample["net_input"], classification_head_name=HEAD)
    targets = sample["target"]
    each = F.cross_entropy(logits, targets, reduction="none") * (targets + 1)
    assert count == len(targets) == sample["net_input"]["word_starts"].sum()
    assert log["num_correct"] == (logits.argmax(1) == targets).sum()
    torch.testing.assert_close(loss, each.sum())


def test_it_trains_resumes_and_loads(folder, tmp_path):
    flags = [*FLAGS, "--metrics", "accuracy", "--best-checkpoint-metric", "accuracy"]
    flags += ["--maximize-best-checkpoint-metric", *training.DECAY]
    flags += ["--save-interval-updates", 4, "--max-epoch", 2]
    done = training.train(folder, tmp_path / "a", *flags)
    assert len([record for record in training.records(done) if "valid_accuracy" in record]) > 1
    path = tmp_path / "a" / "checkpoint_1_4.pt"
    training.train(folder, tmp_path / "b", *flags, "--restore-file", path)
    training.assert_same_weights(tmp_path / "a" / LAST, tmp_path / "b" / LAST)
    hub = TupeRobertaModel.from_pretrained(str(tmp_path / "a"), LAST).eval()
    saved = training.weights(tmp_path / "a" / LAST)
    assert hub.model.classification_heads[HEAD].out_proj.out_features == len(TASK.labels)
    assert all(saved[name].equal(x) for name, x in hub.model.state_dict().items())


def test_a_wrong_row_is_named(tmp_path):
    data = write(tmp_path / "data")
    write_bin(data / "input0" / "valid", [[FIRST] * 3 + [EOS]] * 2)
    write_bin(data / "label" / "valid", [[FIRST, PAD, FIRST + 1, EOS], [FIRST, EOS]])
    with pytest.raises(ValueError, match="split valid of .*: row 2: tokens and tags do not match"):
        build(data)[0].load_dataset("valid")


def test_refusals(folder):
    with pytest.raises(ValueError, match=r"--num-classes \(3\) must be 5 for the labels of"):
        build(folder, "--num-classes", 3)
    task, model, criterion = build(folder)
    sample = training.batches(task, "test", 3)[0]
    assert "target" not in sample and sample["net_input"]["word_starts"].any()
    with pytest.raises(ValueError, match="metric entity_f1 is not one of --metrics accuracy"):
        build(folder, "--metrics", "accuracy", "--best-checkpoint-metric", "entity_f1")
    with pytest.raises(ValueError, match="the split has no labels"):
        criterion(model, sample)
