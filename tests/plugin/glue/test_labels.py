"""glue_sentence_prediction with --multilabel, --metrics and --class-weights."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fairseq import tasks
from fairseq.logging import metrics as logged
from sklearn import metrics

from helpers.glue_data import EOS, FIRST, write_bin
from helpers.glue_training import config, make
from helpers.task_data import topics, write_topics

HEAD = "sentence_classification_head"
OWN = {"criterion.glue_task": None, "criterion.metrics": "micro_f1,macro_f1",
       "task.multilabel": True, "task.num_classes": 3}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_topics(tmp_path_factory.mktemp("topics"), topics())


@pytest.fixture(scope="module")
def glue(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glue")
    return {name: make(name, folder / name) for name in ("CoLA", "STS-B", "MNLI")}


def build(name, data, changes):
    cfg = config(name, data, changes)
    task = tasks.setup_task(cfg.task)
    return task, task.build_model(cfg.model), task.build_criterion(cfg.criterion)


def batches(task, size, split="valid"):
    iterator = task.get_batch_iterator(task.load_dataset(split), max_sentences=size)
    return list(iterator.next_epoch_itr(shuffle=False))


def logits_of(model, sample):
    return model(**sample["net_input"], features_only=True, classification_head_name=HEAD)[0]


def test_targets_are_those_of_the_rows(folder):
    task, _, _ = build("CoLA", folder, OWN)
    found = {}
    for sample in batches(task, 5):
        assert sample["target"].dtype == torch.bool
        found.update(zip(sample["id"].tolist(), sample["target"].tolist()))
    expected = [[label in labels for label in range(3)] for _, labels in topics()["valid"]]
    assert [found[row] for row in range(23)] == expected
    assert [False] * 3 in expected and any(sum(row) > 1 for row in expected)


@pytest.mark.parametrize("weights", [None, "0.5,2,3"])
def test_loss_and_metrics_of_labels(weights, folder):
    task, model, criterion = build("CoLA", folder, {**OWN, "criterion.class_weights": weights})
    model.eval(), criterion.eval()
    with torch.no_grad(), logged.aggregate(new_root=True) as aggregate:
        pairs, total = [], 0.0
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        for sample in batches(task, 7):
            loss, rows, log = criterion(model, sample)
            criterion.reduce_metrics([log])
            logits, targets = logits_of(model, sample), sample["target"]
            probabilities = logits.double().sigmoid()
            factor = torch.tensor([0.5, 2, 3] if weights else [1, 1, 1])
            of_labels = -torch.where(
                targets, factor * probabilities.log(), (1 - probabilities).log()
            )
            assert rows == len(targets)
            # float32 against float64
            assert loss.item() == pytest.approx(of_labels.mean(1).sum().item(), rel=1e-5)
            pairs.append((targets.numpy(), (probabilities > 0.5).numpy()))
            total += loss.item()
    targets, predictions = map(np.concatenate, zip(*pairs))
    assert 0 < predictions.mean() < 1
    values = aggregate.get_smoothed_values()
    for average in ("micro", "macro"):
        expected = metrics.f1_score(targets, predictions, average=average, zero_division=0)
        assert values[f"{average}_f1"] == pytest.approx(100 * expected, abs=1e-9)
    assert values["loss"] == pytest.approx(total / 23 / np.log(2), abs=1e-3)
    assert "accuracy" not in values


def test_weights_of_classes(glue):
    weights = torch.tensor([0.5, 2.0, 3.0])
    changes = {"criterion.glue_task": None, "criterion.metrics": "macro_f1",
               "criterion.class_weights": "0.5,2,3"}  # fmt: skip
    task, model, criterion = build("MNLI", glue["MNLI"], changes)
    assert criterion.metric_names == ["macro_f1", "accuracy"]
    model.eval()
    sample = batches(task, 8)[0]
    loss, rows, _ = criterion(model, sample)
    logits, targets = logits_of(model, sample), sample["target"].view(-1)
    each = F.cross_entropy(logits, targets, reduction="none") * weights[targets]
    assert rows == 8 and len(targets.unique()) > 1
    torch.testing.assert_close(loss, each.sum())


@pytest.mark.parametrize(
    "name, changes, message",
    [
        ("CoLA", {"criterion.metrics": "mcc"}, "exactly one of --glue-task and --metrics"),
        ("CoLA", {"criterion.glue_task": None}, "exactly one of --glue-task and --metrics"),
        ("CoLA", {"criterion.glue_task": None, "criterion.metrics": "mcc,pearson"},
         "--metrics mcc,pearson: 'pearson' is not for this kind of task; for classification"),
        ("MNLI", {"criterion.glue_task": None, "criterion.metrics": "f1"},
         "f1 is of the second of two classes, and there are 3"),
        ("STS-B", {"criterion.class_weights": "1,2"}, "a regression has no classes; drop it"),
        ("CoLA", {"criterion.class_weights": "1,2,3"}, "1,2,3 has 3 weights; there are 2 labels"),
        ("CoLA", {"criterion.class_weights": "1,x"}, "--class-weights 1,x: 'x' is not a number"),
        ("CoLA", {"criterion.class_weights": "0,1"}, "'0' is not a number above 0"),
        ("CoLA", {"criterion.class_weights": "inf,1"}, "'inf' is not a number above 0"),
        ("CoLA", {"task.multilabel": True}, "CoLA has one label a row: drop --multilabel"),
        ("STS-B", {"task.multilabel": True}, "--regression-target has scores and --multilabel"),
    ],
)  # fmt: skip
def test_flags_that_do_not_fit_are_refused(name, changes, message, glue):
    with pytest.raises(ValueError, match=message):
        build(name, glue[name], changes)


def test_several_labels_need_the_flag(folder):
    task, _, _ = build("CoLA", folder, {**OWN, "task.multilabel": False,
                                        "criterion.metrics": "mcc"})  # fmt: skip
    row = next(n for n, (_, labels) in enumerate(topics()["valid"], 1) if len(labels) != 1)
    with pytest.raises(ValueError, match=f"row {row} of split valid of .*pass --multilabel"):
        task.load_dataset("valid")


def test_an_unknown_label_is_refused(tmp_path):
    data = write_topics(tmp_path, topics())
    write_bin(data / "label" / "valid", [[FIRST, EOS], [FIRST, 3, EOS]] + [[EOS]] * 21)
    task, _, _ = build("CoLA", data, OWN)
    message = "row 2 of split valid has a label that is not one of art, good food, 100 %;"
    with pytest.raises(ValueError, match=message):
        task.load_dataset("valid")
