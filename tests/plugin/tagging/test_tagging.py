"""The task, criterion and head of tagging: what they read, count and refuse."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fairseq import tasks
from fairseq.logging import metrics as logged
from omegaconf import OmegaConf
from seqeval.metrics import f1_score

from helpers.glue_data import EOS, FIRST, write_bin
from helpers.glue_training import config, make
from helpers.task_data import NAMES, PAD, names, write_names
from tupe_fairseq.plugin.tagging.tagging_criterion import TokenTaggingCriterionConfig
from tupe_fairseq.plugin.tagging.tagging_task import TokenTaggingConfig

LONG = {"train": 20, "valid": 12, "test": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sentences of up to 90 pieces, for a model of 32."""
    return write_names(tmp_path_factory.mktemp("names"), names(LONG, longest=30))


def rows(split):
    return names(LONG, longest=30)[split]


def setup(data, **options):
    cfg = TokenTaggingConfig(**{"data": str(data), "max_positions": 32, "seed": 3, **options})
    cfg.classification_head_name, cfg.train_subset = "token_tagging_head", "train"
    return tasks.setup_task(OmegaConf.structured({**vars(cfg), "_name": "token_tagging"}))


@pytest.fixture(scope="module")
def model_options(tmp_path_factory):
    """Those of the tiny model of other tests."""
    data = make("CoLA", tmp_path_factory.mktemp("glue") / "CoLA")
    return config("CoLA", data).model


def build(data, model_options, metrics="entity_f1,accuracy", weights=None, **options):
    """Task, model without dropout and with random weights, and criterion."""
    task = setup(data, **options)
    model = task.build_model(copy.deepcopy(model_options)).eval()
    torch.manual_seed(5)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    cfg = TokenTaggingCriterionConfig(metrics=metrics, class_weights=weights)
    criterion = task.build_criterion(OmegaConf.structured({**vars(cfg), "_name": "token_tagging"}))
    return task, model, criterion


def batches(task, size, split="valid"):
    iterator = task.get_batch_iterator(task.load_dataset(split), max_sentences=size)
    return list(iterator.next_epoch_itr(shuffle=False))


def test_every_word_is_in_one_window_with_its_tag(folder):
    task = setup(folder)
    found = {}
    for sample in batches(task, 4, "train"):
        tokens, starts = (sample["net_input"][key] for key in ("src_tokens", "word_starts"))
        assert tokens.shape == starts.shape and tokens.size(1) <= 32
        assert (tokens[:, 0] == 0).all() and (tokens.eq(EOS).sum(1) == 1).all()
        assert sample["net_input"]["src_lengths"].tolist() == tokens.ne(PAD).sum(1).tolist()
        targets = sample["target"].split(starts.sum(1).tolist())
        for row, key in enumerate(zip(sample["sentence"].tolist(), sample["id"].tolist())):
            pieces = tokens[row, starts[row]] - FIRST
            found[key] = list(zip(pieces.tolist(), targets[row].tolist()))
    assert len(found) > LONG["train"]
    for number, (words, tags) in enumerate(rows("train")):
        parts = [found[key] for key in sorted(found) if key[0] == number]
        expected = [(word[0], tag) for word, tag in zip(words, tags)]
        assert sum(parts, []) == expected


def test_a_pooling_is_refused(folder, model_options):
    changed = copy.deepcopy(model_options)
    changed.pooling = "mean"
    with pytest.raises(ValueError, match="--pooling mean makes one vector of a text, and token_"):
        build(folder, changed)


@pytest.mark.parametrize("size", [1, 5])
def test_loss_and_metrics_are_over_words_of_whole_sentences(size, folder, model_options):
    task, model, criterion = build(folder, model_options)
    criterion.eval()
    losses, words = 0.0, 0
    with torch.no_grad(), logged.aggregate(new_root=True) as aggregate:
        predicted = {}
        for sample in batches(task, size):
            loss, count, log = criterion(model, sample)
            criterion.reduce_metrics([log])
            losses, words = losses + loss.item(), words + count
            # the whole head, of which the words' part is taken
            net_input = dict(sample["net_input"])
            starts = net_input.pop("word_starts")
            logits, _ = model(**net_input, classification_head_name="token_tagging_head")
            rows_of = zip(sample["sentence"].tolist(), sample["id"].tolist())
            for key, row, mask in zip(rows_of, logits, starts):
                predicted[key] = row[mask]
    expected = rows("valid")
    assert words == sum(len(tags) for _, tags in expected)
    logits = [
        torch.cat([predicted[key] for key in sorted(predicted) if key[0] == number])
        for number in range(len(expected))
    ]
    targets = [torch.tensor(tags) for _, tags in expected]
    total = F.cross_entropy(torch.cat(logits).double(), torch.cat(targets), reduction="sum").item()
    assert losses == pytest.approx(total, rel=1e-5)  # float32 against float64
    values = aggregate.get_smoothed_values()
    assert values["loss"] == pytest.approx(total / words / np.log(2), abs=1e-3)
    sides = [
        [[NAMES.labels[tag] for tag in row.tolist()] for row in side]
        for side in (targets, [row.argmax(1) for row in logits])
    ]
    assert values["entity_f1"] == pytest.approx(100 * f1_score(*sides, zero_division=0), abs=1e-9)
    hits = [a == b for pair in zip(*sides) for a, b in zip(*pair)]
    assert values["accuracy"] == pytest.approx(100 * np.mean(hits), abs=1e-9)
    assert set(values) >= {"loss", "entity_f1", "accuracy"} and 0 < values["accuracy"] < 100


def test_training_counts_words(folder, model_options):
    task, model, criterion = build(folder, model_options, weights="1,2,3,4,5")
    criterion.train()
    sample = batches(task, 6, "train")[0]
    loss, count, log = criterion(model, sample)
    logits, _ = model(**sample["net_input"], classification_head_name="token_tagging_head")
    targets = sample["target"]
    each = F.cross_entropy(logits, targets, reduction="none") * (targets + 1)
    assert count == len(targets) == sample["net_input"]["word_starts"].sum()
    torch.testing.assert_close(loss, each.sum())
    with logged.aggregate(new_root=True) as aggregate:
        criterion.reduce_metrics([log, log])
    hits = (logits.argmax(1) == targets).float().mean().item()
    assert aggregate.get_smoothed_values()["accuracy"] == round(100 * hits, 1)


def test_unpadded_and_alone_is_the_same(folder, model_options):
    """What else is in a batch, and how its padding is left out, changes nothing."""
    found = []
    for unpad, size in ((False, 1), (False, 7), (True, 7)):
        options = copy.deepcopy(model_options)
        options.unpad = unpad
        task, model, _ = build(folder, options)
        logits = {}
        for sample in batches(task, size):
            with torch.no_grad():
                out, _ = model(**sample["net_input"], classification_head_name="token_tagging_head")
            parts = out.split(sample["net_input"]["word_starts"].sum(1).tolist())
            logits.update(zip(sample["id"].tolist(), parts))
        found.append(torch.cat([logits[number] for number in sorted(logits)]))
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=0, atol=1e-5)


def test_a_split_without_tags_has_no_targets(folder, model_options):
    task, model, criterion = build(folder, model_options)
    sample = batches(task, 3, "test")[0]
    assert "target" not in sample and sample["net_input"]["word_starts"].any()
    with pytest.raises(ValueError, match="the split has no tags; predict on it"):
        criterion(model, sample)


def spoil(row, change):
    def write(data):
        lines = [[FIRST, PAD, FIRST + 1, EOS], [FIRST, FIRST, FIRST, EOS]]
        write_bin(data / "input0" / "valid", [[FIRST] * 3 + [EOS]] * 2)
        lines[row] = change
        write_bin(data / "label" / "valid", lines)

    return write


@pytest.mark.parametrize(
    "row, change, message",
    [
        (1, [FIRST, EOS], "row 2 of split valid of .* has 3 pieces, but 1 tags"),
        (0, [PAD, FIRST, FIRST, EOS], "row 1 of .*: its first piece begins no word"),
        (1, [FIRST, FIRST + 5, FIRST, EOS], "row 2 of .* has a tag that label/dict.txt does not"),
        (1, [FIRST, 3, FIRST, EOS], "row 2 of .*: some words of the split have a tag and others"),
    ],
    ids=["length", "no_word", "unlisted", "unknown"],
)
def test_rows_that_are_wrong_are_named(row, change, message, folder, tmp_path):
    data = write_names(tmp_path, names())
    spoil(row, change)(data)
    with pytest.raises(ValueError, match=message):
        setup(data).load_dataset("valid")


def test_lost_rows_are_refused(tmp_path):
    data = write_names(tmp_path, names())
    write_bin(data / "label" / "valid", [[FIRST, EOS]] * 3)
    with pytest.raises(ValueError, match="missing rows: 23 in input0, 3 in label"):
        setup(data).load_dataset("valid")


def test_what_is_not_there_is_named(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="input0/valid7.bin is missing; prepare"):
        setup(folder).load_dataset("valid7")
    with pytest.raises(FileNotFoundError, match="there is no .*/input0/dict.txt"):
        setup(tmp_path)
    data = write_names(tmp_path / "data", names())
    (data / "label" / "valid.bin").unlink()
    with pytest.raises(FileNotFoundError, match="label/valid.bin is missing, which says where"):
        setup(data).load_dataset("valid")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_classes": 4}, r"--num-classes is 4; the tags in .* are 5 \(O, B-a b, I-a b, B-c"),
        ({"max_positions": 2}, "--max-positions 2 leaves no room for a piece between"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message, folder):
    with pytest.raises(ValueError, match=message):
        setup(folder, **options).load_dataset("valid")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"metrics": "f1"}, "--metrics f1: 'f1' is not for this kind of task; for tagging there"),
        ({"weights": "1,2"}, "--class-weights 1,2 has 2 weights; there are 5 labels: O, B-a b"),
    ],
)
def test_flags_of_the_criterion_are_checked(options, message, folder, model_options):
    with pytest.raises(ValueError, match=message):
        build(folder, model_options, **options)
