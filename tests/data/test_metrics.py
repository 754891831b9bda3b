"""Metrics equal scikit-learn, scipy, seqeval, and values worked out by hand."""

import warnings

import numpy as np
import pytest
from seqeval.metrics import f1_score
from sklearn import metrics

from tupe_fairseq.data.metrics import class_scores, task_metrics


def test_by_hand():
    # 3 true and 1 false positives, 2 true and 2 false negatives
    targets, predictions = [1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 1]
    accuracy, f1, mcc = 5 / 8, 2 * 3 / (2 * 3 + 1 + 2), (3 * 2 - 1 * 2) / (4 * 5 * 3 * 4) ** 0.5
    expected = {"accuracy": accuracy, "f1": f1, "mcc": mcc, "acc_and_f1": (accuracy + f1) / 2}
    # rounding of a few operations on float64
    found = task_metrics(list(expected), predictions, targets)
    assert found == pytest.approx(expected, abs=1e-12)
    # deviations (-1, 0, 1) and (-3, 1, 2) from the means; ranks 1 2 3 and 1 2 3
    expected = {"pearson": 5 / (2 * 14) ** 0.5, "spearman": 1}
    expected["pearson_and_spearman"] = sum(expected.values()) / 2
    found = task_metrics(list(expected), [0.1, 0.2, 0.3], [1.0, 5.0, 6.0])
    assert found == pytest.approx(expected, abs=1e-12)


def test_classes_and_labels_equal_scikit_learn():
    generator = np.random.default_rng(1)
    targets, others = generator.integers(0, 3, (2, 200))
    predictions = np.where(generator.random(200) < 0.6, targets, others)
    assert task_metrics(["mcc", "macro_f1"], predictions, targets) == {
        "mcc": metrics.matthews_corrcoef(targets, predictions),
        "macro_f1": metrics.f1_score(targets, predictions, average="macro"),
    }
    scores = class_scores("abc", predictions, targets)
    precision = metrics.precision_score(targets, predictions, average=None)
    recall = metrics.recall_score(targets, predictions, average=None)
    assert [(one["precision"], one["recall"]) for one in scores] == list(zip(precision, recall))
    assert [one["support"] for one in scores] == np.bincount(targets).tolist()
    targets = generator.random((80, 4)) < [0.7, 0.4, 0.1, 0.0]  # the last one nobody has
    predictions = targets ^ (generator.random((80, 4)) < [0.1, 0.3, 0.2, 0.05])
    assert task_metrics(["micro_f1", "macro_f1"], predictions, targets) == {
        f"{average}_f1": metrics.f1_score(targets, predictions, average=average, zero_division=0)
        for average in ("micro", "macro")
    }


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
    assert task_metrics(["entity_f1"], predictions, targets)["entity_f1"] == f1_score(
        targets, predictions
    )


@pytest.mark.parametrize("constant", [0, 1])
def test_what_is_undefined_counts_as_0(constant):
    none = np.zeros((3, 2), dtype=bool)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [
            task_metrics(["mcc"], [constant] * 4, [0, 1, 1, 1]),
            task_metrics(["pearson", "spearman"], [float(constant)] * 4, [0, 1, 2, 3.5]),
            task_metrics(["entity_f1"], [["O"], ["O"]], [["O"], ["O"]]),
            task_metrics(["micro_f1", "macro_f1"], none, none),
        ]
    assert {value for one in found for value in one.values()} == {0}
