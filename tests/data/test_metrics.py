"""Metrics equal scikit-learn, scipy, seqeval, and values worked out by hand."""

import warnings

import numpy as np
import pytest
from scipy import stats
from seqeval.metrics import f1_score
from sklearn import metrics

from tupe_fairseq.data.metrics import check_metrics, class_scores, most_frequent, task_metrics


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_equal_scikit_learn(classes):
    generator = np.random.default_rng(1)
    targets = generator.integers(0, classes, 200)
    predictions = np.where(
        generator.random(200) < 0.6, targets, generator.integers(0, classes, 200)
    )
    names = ["accuracy", "mcc", "macro_f1"] + ["f1", "acc_and_f1"] * (classes == 2)
    found = task_metrics(names, predictions, targets)
    assert list(found) == names
    accuracy = metrics.accuracy_score(targets, predictions)
    assert found["accuracy"] == accuracy
    assert found["mcc"] == metrics.matthews_corrcoef(targets, predictions)
    assert found["macro_f1"] == metrics.f1_score(targets, predictions, average="macro")
    if classes == 2:
        f1 = metrics.f1_score(y_true=targets, y_pred=predictions)
        assert found["f1"] == f1 and found["acc_and_f1"] == (accuracy + f1) / 2
    scores = class_scores("abc"[:classes], predictions, targets)
    precision = metrics.precision_score(targets, predictions, average=None)
    recall = metrics.recall_score(targets, predictions, average=None)
    assert [(one["precision"], one["recall"]) for one in scores] == list(zip(precision, recall))
    assert [one["support"] for one in scores] == np.bincount(targets).tolist()
    assert most_frequent(scores, 1) == [max(scores, key=lambda one: one["support"])]


def test_scores_equal_scipy():
    generator = np.random.default_rng(2)
    targets = generator.random(150).round(1)  # with ties, which ranks must share
    predictions = targets + generator.normal(0, 0.3, 150)
    found = task_metrics(["pearson", "spearman", "pearson_and_spearman"], predictions, targets)
    pearson = stats.pearsonr(predictions, targets)[0]
    spearman = stats.spearmanr(predictions, targets)[0]
    assert list(found.values()) == [pearson, spearman, (pearson + spearman) / 2]


def test_by_hand():
    # 3 true and 1 false positives, 2 true and 2 false negatives
    targets, predictions = [1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 1]
    found = task_metrics(["accuracy", "f1", "mcc"], predictions, targets)
    assert found == pytest.approx(
        {
            "accuracy": 5 / 8,
            "f1": 2 * 3 / (2 * 3 + 1 + 2),
            "mcc": (3 * 2 - 1 * 2) / (4 * 5 * 3 * 4) ** 0.5,
        },
        abs=1e-12,  # rounding of a few operations on float64
    )
    # deviations (-1, 0, 1) and (-3, 1, 2) from the means; ranks 1 2 3 and 1 2 3
    found = task_metrics(["pearson", "spearman"], [0.1, 0.2, 0.3], [1.0, 5.0, 6.0])
    assert found == pytest.approx({"pearson": 5 / (2 * 14) ** 0.5, "spearman": 1}, abs=1e-12)


@pytest.mark.parametrize("constant", [0, 1])
def test_what_is_undefined_counts_as_0(constant):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = task_metrics(["mcc", "f1"], [constant] * 4, [0, 1, 1, 1])
        scores = task_metrics(["pearson", "spearman"], [float(constant)] * 4, [0, 1, 2, 3.5])
        assert task_metrics(["entity_f1"], [["O"], ["O"]], [["O"], ["O"]]) == {"entity_f1": 0}
        none = np.zeros((3, 2), dtype=bool)
        assert task_metrics(["micro_f1", "macro_f1"], none, none) == {"micro_f1": 0, "macro_f1": 0}
    assert found["mcc"] == 0 and found["f1"] == pytest.approx(6 / 7 if constant else 0, abs=1e-12)
    assert set(scores.values()) == {0.0}


def test_labels_equal_scikit_learn():
    generator = np.random.default_rng(3)
    targets = generator.random((80, 4)) < [0.7, 0.4, 0.1, 0.0]  # the last one nobody has
    predictions = targets ^ (generator.random((80, 4)) < [0.1, 0.3, 0.2, 0.05])
    found = task_metrics(["micro_f1", "macro_f1"], predictions, targets)
    for average in ("micro", "macro"):
        expected = metrics.f1_score(targets, predictions, average=average, zero_division=0)
        assert found[f"{average}_f1"] == expected


def test_tags():
    targets = [["B-a", "I-a", "O", "B-b"], ["O", "B-a"], []]
    predictions = [["B-a", "I-a", "O", "B-a"], ["B-a", "I-a"], []]
    found = task_metrics(["accuracy", "entity_f1"], predictions, targets)
    assert found == {"accuracy": 3 / 6, "entity_f1": pytest.approx(2 * 1 / (3 + 3), abs=1e-12)}
    # as in CoNLL's script, I-b after I-a begins an entity
    rows = [["O", "I-a", "I-b"], ["O"]]
    assert task_metrics(["entity_f1"], [["O", "B-a", "B-b"], ["O"]], rows)["entity_f1"] == 1
    generator, tags = np.random.default_rng(4), np.array(["O", "B-x", "I-x", "B-y", "I-y"])
    targets = [tags[generator.integers(0, 5, n)].tolist() for n in generator.integers(0, 9, 60)]
    predictions = [
        [tag if generator.random() < 0.7 else tags[generator.integers(5)].item() for tag in row]
        for row in targets
    ]
    found = task_metrics(["entity_f1", "accuracy"], predictions, targets)
    assert 0.2 < found["entity_f1"] == f1_score(targets, predictions) < found["accuracy"]


def test_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match="metrics need equally many of both"):
        task_metrics(["accuracy"], [["O"], ["O"]], [["O"], ["O", "O"]])


def test_a_metric_of_other_tasks_is_refused():
    check_metrics(["entity_f1", "accuracy"], "tagging", ["O", "B-x-y", "I-x-y"], "--metrics")
    check_metrics(["f1", "macro_f1", "acc_and_f1"], "classification", ["a", "b"], "--metrics")
    check_metrics(["micro_f1", "macro_f1"], "multilabel", ["a"], "--metrics")
    for name, kind, labels, message in [
        ("bleu", "regression", [], "--metrics: 'bleu' is not for regression, which has pearson, s"),
        ("pearson", "tagging", ["O"], "'pearson' is not for tagging, which has accuracy, entity_"),
        ("f1", "classification", "abc", "f1 is of the second of two classes, and there are 3"),
        ("entity_f1", "tagging", ["O", "B-"], "entity_f1 needs tags O, B-... and I-..., not 'B-'"),
    ]:
        with pytest.raises(ValueError, match=message):
            check_metrics([name], kind, labels, "--metrics")
