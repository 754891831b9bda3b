"""The criterion glue_sentence_prediction, compared with fairseq's own and scikit-learn."""

from argparse import Namespace

import numpy as np
import pytest
import torch
from fairseq import tasks
from fairseq.criterions.sentence_prediction import SentencePredictionCriterion
from fairseq.logging import metrics as logged
from scipy import stats
from sklearn import metrics

from helpers.glue_training import config, make
from tupe_fairseq.plugin.glue.rows_meter import ROWS

MEAN = {"acc_and_f1": ("accuracy", "f1"), "pearson_and_spearman": ("pearson", "spearman")}
BY_SKLEARN = {
    "mcc": lambda p, t: metrics.matthews_corrcoef(t, p),
    "accuracy": lambda p, t: metrics.accuracy_score(t, p),
    "f1": lambda p, t: metrics.f1_score(t, p, pos_label=1),
    "pearson": lambda p, t: stats.pearsonr(p, t)[0],
    "spearman": lambda p, t: stats.spearmanr(p, t)[0],
}
# what validation logs in addition to fairseq's own
LOGGED = {
    "CoLA": {"mcc", "accuracy"},
    "MRPC": {"accuracy", "f1", "acc_and_f1"},
    "STS-B": {"pearson", "spearman", "pearson_and_spearman"},
    "MNLI": {"accuracy"},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glue")
    return {name: make(name, folder / name) for name in LOGGED}


def build(name, data, changes=()):
    """Task, model and criterion."""
    cfg = config(name, data, changes)
    task = tasks.setup_task(cfg.task)
    return task, task.build_model(cfg.model), task.build_criterion(cfg.criterion)


def logits_of(model, sample):
    with torch.no_grad():
        logits, _ = model(
            **sample["net_input"],
            features_only=True,
            classification_head_name="sentence_classification_head",
        )
    return logits


def scatter(model, samples):
    """Weights that put rows into different classes; fresh ones say the same of all."""
    model.eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    logits = torch.cat([logits_of(model, sample) for sample in samples])
    head = model.classification_heads["sentence_classification_head"]
    head.out_proj.bias.data -= logits.mean(0)


def batches(task, size, split="valid"):
    dataset = task.load_dataset(split)
    iterator = task.get_batch_iterator(dataset, max_sentences=size)
    return list(iterator.next_epoch_itr(shuffle=False))


def validate(task, model, criterion, samples):
    """As fairseq's trainer: what is logged of one pass, and the rows' predictions and targets."""
    model.eval(), criterion.eval()
    predictions, targets = [], []
    with logged.aggregate(new_root=True) as aggregate:
        for sample in samples:
            _, _, log = task.valid_step(sample, model, criterion)
            with logged.aggregate() as of_batch:
                task.reduce_metrics([log], criterion)
            of_batch.get_smoothed_values()
            logits = logits_of(model, sample)
            rows = logits.view(-1) if logits.size(1) == 1 else logits.argmax(1)
            predictions += rows.tolist()
            targets += sample["target"].view(-1).tolist()
    return aggregate.get_smoothed_values(), np.array(predictions), np.array(targets)


@pytest.mark.parametrize("size", [1, 5, 23])
@pytest.mark.parametrize("name", LOGGED)
def test_validation_logs_task_metrics_over_all_rows(name, size, folders):
    task, model, criterion = build(name, folders[name])
    samples = batches(task, size)
    scatter(model, samples)
    values, predictions, targets = validate(task, model, criterion, samples)
    assert len(targets) == 23 and len(set(predictions.tolist())) > 1
    for metric in LOGGED[name]:
        parts = [BY_SKLEARN[part](predictions, targets) for part in MEAN.get(metric, (metric,))]
        assert values[metric] == pytest.approx(100 * np.mean(parts), abs=1e-4)
        assert type(values[metric]) is float  # a numpy scalar would not load with weights_only
    assert set(values) - {"loss", "nll_loss", "wpb", "bsz", "wps"} == LOGGED[name]


def test_nothing_is_rounded(folders):
    task, model, criterion = build("CoLA", folders["CoLA"])
    model.eval(), criterion.eval()
    with logged.aggregate(new_root=True) as aggregate:
        for number, sample in enumerate(batches(task, 8)):
            _, _, log = criterion(model, sample)
            _, _, (_, predictions, targets) = log[ROWS]
            predictions[:] = targets
            predictions[0] ^= number == 0  # one row of 23 is wrong
            criterion.reduce_metrics([log])
    assert aggregate.get_smoothed_value("accuracy") == 100 * (22 / 23)


def test_an_epoch_leaves_nothing_to_the_next(folders):
    task, model, criterion = build("MRPC", folders["MRPC"])
    samples = batches(task, 4)
    with logged.aggregate("of_all_epochs"):  # as the trainer's "valid"
        first, _, _ = validate(task, model, criterion, samples)
        scatter(model, samples)
        second, predictions, targets = validate(task, model, criterion, samples)
    assert first["acc_and_f1"] != second["acc_and_f1"]
    assert second["accuracy"] == pytest.approx(100 * np.mean(predictions == targets))


def test_one_row_has_no_correlation(folders):
    task, model, criterion = build("STS-B", folders["STS-B"])
    values, _, _ = validate(task, model, criterion, batches(task, 1)[:1])
    assert np.isnan(values["pearson"])


@pytest.mark.parametrize("name", ["MRPC", "STS-B"])
def test_loss_and_gradients_equal_sentence_prediction(name, folders):
    task, model, ours = build(name, folders[name])
    cfg = config(name, folders[name])
    theirs = SentencePredictionCriterion(ours_as_stock(cfg.criterion), task)
    model.eval()  # without dropout; the criteria train
    sample = batches(task, 8, "train")[0]
    results = []
    for criterion in (ours, theirs):
        model.zero_grad()
        loss, rows, log = criterion(model, sample)
        loss.backward()
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        results.append((loss.item(), rows, log["loss"].item(), log["ntokens"], gradients))
    for one, other in zip(*results):
        if isinstance(one, list):
            assert all(a.equal(b) for a, b in zip(one, other))
        else:
            assert one == other


def ours_as_stock(cfg):
    """Our criterion's config with what main's criterion also reads, all off."""
    reports = ("report_mcc", "report_acc_and_f1", "report_pearson_and_spearman")
    return Namespace(**dict.fromkeys(reports, False), **{
        name: cfg[name] for name in ("classification_head_name", "regression_target")
    })  # fmt: skip


def test_training_logs_loss_and_accuracy_only(folders):
    task, model, criterion = build("MRPC", folders["MRPC"])
    model.train(), criterion.train()
    sample = batches(task, 8, "train")[0]
    _, _, log = criterion(model, sample)
    assert all(torch.is_tensor(v) or isinstance(v, int) for v in log.values())
    assert task.logging_outputs_can_be_summed(criterion)
    with logged.aggregate(new_root=True) as aggregate:
        criterion.reduce_metrics([log, log])
    values = aggregate.get_smoothed_values()
    assert set(values) == {"loss", "nll_loss", "accuracy"}
    assert values["accuracy"] == round(100 * int(log["hits"]) / 8, 1)


@pytest.mark.parametrize(
    "name, data, changes, message",
    [
        ("SST-2", "STS-B", {"task.regression_target": True, "criterion.regression_target": True,
                            "task.num_classes": 1},
         "--glue-task SST-2 is a classification: drop --regression-target"),
        ("STS-B", "CoLA", {"task.regression_target": False, "criterion.regression_target": False,
                           "task.num_classes": 2},
         "--glue-task STS-B is a regression: pass --regression-target"),
        ("CoLA", "MNLI", {"task.num_classes": 3}, "--num-classes is 3; --glue-task CoLA needs 2"),
        ("QNLI", "CoLA", {}, "the classes of .* are 0, 1; --glue-task QNLI has entailment, not_"),
    ],
    ids=["regression", "classification", "classes", "labels"],
)  # fmt: skip
def test_labels_of_another_task_are_refused(name, data, changes, message, folders):
    with pytest.raises(ValueError, match=message):
        build(name, folders[data], changes)


def test_classes_in_another_order_are_refused(tmp_path):
    data = make("CoLA", tmp_path / "CoLA")
    (data / "label" / "dict.txt").write_text("1 1\n0 1\n")
    with pytest.raises(ValueError, match="are 1, 0; --glue-task CoLA has 0, 1, in this order"):
        build("CoLA", data)


def test_fairseqs_own_report_flags_are_refused(folders):
    cfg = config("CoLA", folders["CoLA"])
    if "report_mcc" not in cfg.criterion:
        pytest.skip("fairseq 0.12.2 has no --report-mcc")
    with pytest.raises(ValueError, match="--report-mcc has no effect with --glue-task CoLA"):
        build("CoLA", folders["CoLA"], {"criterion.report_mcc": True})


def test_a_split_without_labels_is_refused(folders):
    task, model, criterion = build("CoLA", folders["CoLA"])
    with pytest.raises(ValueError, match="the split has no labels"):
        criterion(model, batches(task, 4, "test")[0])
