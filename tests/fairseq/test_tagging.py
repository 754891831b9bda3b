"""Fine-tuning on tags of words: windows, loss, metrics over whole sentences."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fairseq.logging import metrics as logged
from sklearn.metrics import accuracy_score

from helpers import cli
from helpers.glue_data import EOS, FIRST, write_bin
from helpers.task_data import NAMES, PAD, names, write_names

ROWS = {"train": 20, "valid": 12, "test": 5}
HEAD, LAST = "token_tagging_head", "checkpoint_last.pt"
FLAGS = [
    *cli.MODEL, *cli.OPTIMIZATION, "--rel-pos", "--task", "token_tagging", "--criterion",
    "token_tagging", "--max-positions", 32, "--batch-size", 8, "--no-epoch-checkpoints",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sentences of up to 90 tokens, for a model of 32."""
    return write_names(tmp_path_factory.mktemp("names") / "data", names(ROWS, longest=30))


def rows(split):
    return names(ROWS, longest=30)[split]


def build(folder, *flags):
    """Task, model with random weights and without dropout, criterion."""
    task, model, criterion = cli.build(cli.config(folder, *FLAGS, *flags))
    torch.manual_seed(5)
    for parameter in model.eval().parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return task, model, criterion


def test_every_word_is_in_one_window_with_its_tag(folder):
    task, _, _ = build(folder)
    found = {}
    for sample in cli.batches(task, "train", 4):
        tokens, starts = (sample["net_input"][key] for key in ("src_tokens", "word_starts"))
        assert tokens.shape == starts.shape and tokens.size(1) <= 32
        assert (tokens[:, 0] == 0).all() and (tokens.eq(EOS).sum(1) == 1).all()
        assert sample["net_input"]["src_lengths"].tolist() == tokens.ne(PAD).sum(1).tolist()
        targets = sample["target"].split(starts.sum(1).tolist())
        for row, key in enumerate(zip(sample["sentence"].tolist(), sample["id"].tolist())):
            words = tokens[row, starts[row]] - FIRST
            found[key] = list(zip(words.tolist(), targets[row].tolist()))
    assert len(found) > ROWS["train"]
    for number, (words, tags) in enumerate(rows("train")):
        parts = [found[key] for key in sorted(found) if key[0] == number]
        assert sum(parts, []) == [(word[0], tag) for word, tag in zip(words, tags)]


@pytest.mark.parametrize("unpad", [[], ["--unpad"]], ids=["padded", "unpad"])
@pytest.mark.parametrize("size", [1, 5])
def test_loss_and_metrics_are_of_whole_sentences(size, unpad, folder):
    task, model, criterion = build(folder, *unpad)
    criterion.eval()
    total, logits = 0.0, {}
    with torch.no_grad(), logged.aggregate(new_root=True) as aggregate:
        for sample in cli.batches(task, "valid", size):
            loss, _, log = criterion(model, sample)
            criterion.reduce_metrics([log])
            total += loss.item()
            net_input = dict(sample["net_input"])
            starts = net_input.pop("word_starts")
            for row, key in enumerate(zip(sample["sentence"].tolist(), sample["id"].tolist())):
                # each window alone, its whole head, of which the words' part is taken
                tokens = net_input["src_tokens"][row : row + 1, : net_input["src_lengths"][row]]
                whole = model(tokens, classification_head_name=HEAD)[0][0]
                logits[key] = whole[starts[row, : len(whole)]]
    logits = torch.cat([logits[key] for key in sorted(logits)])
    targets = torch.cat([torch.tensor(tags) for _, tags in rows("valid")])
    expected = F.cross_entropy(logits.double(), targets, reduction="sum").item()
    assert total == pytest.approx(expected, rel=1e-5)
    values = aggregate.get_smoothed_values()
    assert values["loss"] == pytest.approx(expected / len(targets) / np.log(2), abs=1e-3)
    accuracy = accuracy_score(targets, logits.argmax(1))
    assert values["accuracy"] == pytest.approx(100 * accuracy) and 0 < accuracy < 1


def test_entities_are_those_of_seqeval(folder):
    seqeval = pytest.importorskip("seqeval.metrics")
    task, model, criterion = build(folder, "--metrics", "entity_f1")
    criterion.eval()
    with torch.no_grad(), logged.aggregate(new_root=True) as aggregate:
        for sample in cli.batches(task, "valid", 4):
            _, _, log = criterion(model, sample)
            criterion.reduce_metrics([log])
        pairs = next(iter(logged.get_active_aggregators()))["_rows"]._joined()
    targets = [[NAMES.labels[tag] for tag in tags] for _, tags in rows("valid")]
    assert [pair[1] for pair in pairs] == targets
    expected = seqeval.f1_score(targets, [pair[0] for pair in pairs], zero_division=0)
    assert aggregate.get_smoothed_values()["entity_f1"] == pytest.approx(100 * expected)


def test_training_counts_words(folder):
    task, model, criterion = build(folder, "--class-weights", "1,2,3,4,5")
    sample = cli.batches(task, "train", 6)[0]
    loss, count, log = criterion.train()(model, sample)
    logits, _ = model(**sample["net_input"], classification_head_name=HEAD)
    targets = sample["target"]
    each = F.cross_entropy(logits, targets, reduction="none") * (targets + 1)
    assert count == len(targets) == sample["net_input"]["word_starts"].sum()
    assert log["num_correct"] == (logits.argmax(1) == targets).sum()
    torch.testing.assert_close(loss, each.sum())


def test_it_trains_resumes_and_loads(folder, tmp_path):
    from tupe_fairseq import TupeRobertaModel

    flags = [*FLAGS, "--metrics", "accuracy", "--best-checkpoint-metric", "accuracy"]
    flags += ["--maximize-best-checkpoint-metric", "--lr-scheduler", "polynomial_decay_ratio"]
    del flags[flags.index("--total-num-update") : flags.index("--total-num-update") + 2]
    flags += ["--warmup-ratio", 0.1, "--save-interval-updates", 4, "--max-epoch", 2]
    records = cli.train(folder, tmp_path / "a", *flags)
    assert len([record for record in records if "valid_accuracy" in record]) > 1
    path = tmp_path / "a" / "checkpoint_1_4.pt"
    cli.train(folder, tmp_path / "b", *flags, "--restore-file", path)
    cli.assert_same_weights(tmp_path / "a" / LAST, tmp_path / "b" / LAST)
    hub = TupeRobertaModel.from_pretrained(str(tmp_path / "a"), LAST).eval()
    saved = cli.weights(tmp_path / "a" / LAST)
    assert hub.model.classification_heads[HEAD].out_proj.out_features == len(NAMES.labels)
    assert all(saved[name].equal(x) for name, x in hub.model.state_dict().items())


def test_a_split_without_tags(folder):
    task, model, criterion = build(folder)
    sample = cli.batches(task, "test", 3)[0]
    assert "target" not in sample and sample["net_input"]["word_starts"].any()
    with pytest.raises(ValueError, match="the split has no tags"):
        criterion(model, sample)


WRONG = {
    "length": (1, [FIRST, EOS], "row 2 of split valid of .* tokens and tags do not fit"),
    "no word": (0, [PAD, FIRST, FIRST, EOS], "row 1 of .*: tokens and tags do not fit"),
    "not listed": (1, [FIRST, FIRST + 5, FIRST, EOS], "row 2 of .* a tag that label/dict.txt does"),
    "some unknown": (1, [FIRST, 3, FIRST, EOS], "row 2 of .* some of its words have no tag"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_row_is_named(what, tmp_path):
    row, labels, message = WRONG[what]
    data = write_names(tmp_path / "data", names())
    lines = [[FIRST, PAD, FIRST + 1, EOS], [FIRST, FIRST, FIRST, EOS]]
    write_bin(data / "input0" / "valid", [[FIRST] * 3 + [EOS]] * 2)
    lines[row] = labels
    write_bin(data / "label" / "valid", lines)
    with pytest.raises(ValueError, match=message):
        build(data)[0].load_dataset("valid")


def test_refusals(folder, tmp_path):
    for flags, message in (
        (["--num-classes", 3], r"--num-classes \(3\) must be 5 for the tags of"),
        (["--pooling", "mean"], "--pooling mean makes one vector of a text"),
        (["--metrics", "mcc"], "--metrics mcc"),
    ):
        with pytest.raises(ValueError, match=message):
            build(folder, *flags)
    with pytest.raises(FileNotFoundError, match="input0/valid7.bin is missing"):
        build(folder)[0].load_dataset("valid7")
