"""Fine-tuning on texts: the criterion is fairseq's with whole-set metrics, truncation."""

import math
import shutil
from argparse import Namespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fairseq.criterions.sentence_prediction import SentencePredictionCriterion
from fairseq.logging import metrics as logged

from helpers import independent, training
from helpers.glue_data import write_bin
from helpers.training import DECAY, assert_same_weights, batches, train, write_glue
from tupe_fairseq.data.truncation import join_texts

LAST = "checkpoint_last.pt"
HEAD = "sentence_classification_head"
#: the logged metrics of a task; a third one is the mean of the other two
LOGGED = {
    "CoLA": ["accuracy", "mcc"],
    "MRPC": ["accuracy", "f1", "acc_and_f1"],
    "STS-B": ["pearson", "spearman", "pearson_and_spearman"],
    "MNLI": ["accuracy"],
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glue")
    return {name: write_glue(folder / name, name) for name in LOGGED}


def build(name, folders, *flags):
    return training.build(folders[name], *training.finetuning(name), *flags)


def logits_of(model, sample):
    with torch.no_grad():
        return model(**sample["net_input"], classification_head_name=HEAD)[0]


def scatter(model, samples):
    """Give the model weights that put rows into different classes; new weights do not."""
    for parameter in model.eval().parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    logits = torch.cat([logits_of(model, sample) for sample in samples])
    model.classification_heads[HEAD].out_proj.bias.data -= logits.mean(0)


def validate(task, model, criterion, samples):
    """The logged values of one pass, made as in fairseq's trainer."""
    model.eval(), criterion.eval()
    with logged.aggregate(new_root=True) as aggregate:
        for sample in samples:
            _, _, log = task.valid_step(sample, model, criterion)
            task.reduce_metrics([log], criterion)
    return aggregate.get_smoothed_values()


# ---- The criterion ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOGGED)
def test_metrics_are_of_the_whole_set(name, folders):
    task, model, criterion = build(name, folders)
    samples = batches(task, "valid", 5)
    scatter(model, samples)
    logits = torch.cat([logits_of(model, sample) for sample in samples])
    predictions = logits.view(-1) if logits.size(1) == 1 else logits.argmax(1)
    targets = torch.cat([sample["target"].view(-1) for sample in samples])
    values = validate(task, model, criterion, samples)
    assert len(targets) == 23 and len(set(predictions.tolist())) > 1
    found = predictions.numpy(), targets.numpy()
    expected = [100 * independent.metric(x, *found) for x in LOGGED[name][:2]]
    expected += [np.mean(expected)] * (len(LOGGED[name]) == 3)
    assert [values[x] for x in LOGGED[name]] == pytest.approx(expected, abs=1e-4)
    assert set(values) - {"loss", "nll_loss", "wpb", "bsz", "wps"} == set(LOGGED[name])
    again = validate(task, model, criterion, samples)  # nothing is left of the first pass
    assert {x: again[x] for x in LOGGED[name]}.items() <= values.items()


@pytest.mark.parametrize("name", ["MRPC", "STS-B"])
def test_loss_and_gradients_are_those_of_fairseq(name, folders):
    task, model, criterion = build(name, folders)
    flags = ["report_mcc", "report_acc_and_f1", "report_pearson_and_spearman"]
    stock = SentencePredictionCriterion(
        Namespace(
            classification_head_name=HEAD, regression_target=name == "STS-B",
            **dict.fromkeys(flags, False),
        ), task,
    )  # fmt: skip
    sample, runs = batches(task, "train", 8)[0], []
    model.eval()  # without dropout
    for one in (criterion, stock):
        model.zero_grad()
        loss, rows, log = one(model, sample)
        loss.backward()
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        runs.append([loss, torch.tensor(rows), *gradients])
        if one is criterion:  # scores have a squared error, not bits
            bits = 1 if name == "STS-B" else math.log(2)
            assert log["loss"].item() == pytest.approx(loss.item() / bits, rel=1e-6)  # float32
    assert all(x.equal(y) for x, y in zip(*runs))


def test_a_regression_is_validated_in_bfloat16(folders):
    task, model, criterion = build("STS-B", folders)
    (sample,) = batches(task, "valid", 99)
    with torch.no_grad():
        loss, rows, _ = criterion.eval()(model.eval().bfloat16(), sample)
        predictions = logits_of(model, sample).view(-1).float()
    torch.testing.assert_close(loss, (predictions - sample["target"].view(-1)).square().sum())


def test_class_weights(folders):
    task, model, criterion = build("CoLA", folders, "--class-weights", "1,3")
    sample = batches(task, "train", 8)[0]
    loss, _, log = criterion(model.eval(), sample)
    logits, targets = logits_of(model, sample), sample["target"].view(-1)
    each = F.cross_entropy(logits, targets, reduction="none") * (1 + 2 * targets)
    torch.testing.assert_close(loss, each.sum())
    assert log["num_correct"] == (logits.argmax(1) == targets).sum()


def test_any_number_of_labels(tmp_path):
    data = write_glue(tmp_path / "data", "MNLI")
    labels = [[], [4], [5, 6], [4, 5, 6], [6]]
    for split, count in (("train", 53), ("valid", 23)):
        write_bin(data / "label" / split, [[*labels[row % 5], 2] for row in range(count)])
    flags = [*training.finetuning("MNLI", "micro_f1"), "--multilabel"]
    task, model, criterion = training.build(data, *flags)
    samples = batches(task, "valid", 4)
    scatter(model, samples)
    logits = torch.cat([logits_of(model, sample) for sample in samples])
    targets = torch.cat([sample["target"] for sample in samples])
    values = validate(task, model, criterion, samples)
    expected = independent.metric("micro_f1", (logits > 0).numpy(), targets.numpy() > 0)
    assert values["micro_f1"] == pytest.approx(100 * expected)
    loss, rows, _ = criterion(model, samples[0])
    each = F.binary_cross_entropy_with_logits(logits[:4], targets[:4].float(), reduction="none")
    assert rows == 4
    torch.testing.assert_close(loss, each.mean(1).sum())


@pytest.mark.parametrize(
    "flags, reason",
    [
        (["--num-classes", 3], r"--num-classes \(3\) must be 2 for the labels of"),
        (["--glue-task", "QNLI"], "--glue-task QNLI has entailment, not_entailment"),
        (["--class-weights", "1,-2"], "--class-weights 1,-2: must be 2 numbers above 0"),
    ],
    ids=["classes", "task", "weights"],
)
def test_refusals(flags, reason, folders):
    with pytest.raises(ValueError, match=reason):
        build("CoLA", folders, *flags)


def test_a_wrong_row_is_named(tmp_path):
    data = write_glue(tmp_path / "data", "CoLA")
    write_bin(data / "label" / "valid", [[4, 2]] * 20 + [[4, 5, 2]] + [[4, 2]] * 2)
    task, _, _ = training.build(data, *training.finetuning("CoLA"))
    with pytest.raises(
        ValueError, match="split valid of .*: row 21 has 2 labels; pass --multilabel"
    ):
        task.load_dataset("valid")


def test_the_parts_of_a_split_are_combined_as_in_fairseq(tmp_path):
    """fairseq-train combines train, train1 and so on."""
    data = write_glue(tmp_path / "data", "CoLA")
    for path in [*data.rglob("valid.bin"), *data.rglob("valid.idx")]:
        shutil.copy(path, path.with_name(path.name.replace("valid", "train1")))
    task, _, _ = training.build(data, *training.finetuning("CoLA"))
    sizes = [len(task.load_dataset("train", combine=combine)) for combine in (False, True)]
    assert sizes == [53, 53 + 23]


# ---- Truncation ---------------------------------------------------------------------------------


def one_by_one(first, second, room):
    while first + second > room:
        first, second = (first - 1, second) if first > second else (first, second - 1)
    return first, second


@pytest.mark.parametrize("limit", [5, 6, 9, 10, 32])
def test_truncation_is_longest_first(limit):
    for first, second in [(9, 3), (3, 9), (6, 6), (1, 1), (0, 12), (12, 0)]:
        texts = [*range(100, 100 + first)], [*range(200, 200 + second)]
        a, b = one_by_one(first, second, limit - 4)
        sample = [0, *range(100, 100 + a), 2, 2, *range(200, 200 + b), 2]
        assert join_texts(texts, limit) == (sample, first + second + 4 <= limit, None, 0)
        kept = range(100, 100 + min(first, limit - 2))
        assert join_texts(texts[:1], limit) == ([0, *kept, 2], first + 2 <= limit, None, 0)
    with pytest.raises(ValueError, match="--max-positions 4 leaves no room for a token"):
        join_texts(texts, 4)


# ---- Training -----------------------------------------------------------------------------------


def finetune(data, save_dir, name, *flags):
    return train(data, save_dir, *training.finetuning(name), *flags)


def test_it_resumes(folders, tmp_path):
    flags = [*DECAY, "--max-epoch", 2, "--save-interval-updates", 4]
    finetune(folders["CoLA"], tmp_path / "a", "CoLA", *flags)
    path = tmp_path / "a" / "checkpoint_1_4.pt"
    finetune(folders["CoLA"], tmp_path / "b", "CoLA", *flags, "--restore-file", path)
    assert_same_weights(tmp_path / "a" / LAST, tmp_path / "b" / LAST)


def test_a_split_without_labels_is_refused_before_the_first_epoch(folders, tmp_path):
    flags = ["--max-epoch", 1, "--valid-subset", "valid,test"]
    with pytest.raises(ValueError, match="split test of .* has no labels; drop it from --valid-su"):
        finetune(folders["CoLA"], tmp_path, "CoLA", *flags)
