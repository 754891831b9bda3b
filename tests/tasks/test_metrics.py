"""GLUE's metrics against scikit-learn, scipy and values worked out by hand."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from tupe_fairseq.glue.glue_tasks import GLUE_TASKS
from tupe_fairseq.tasks.metrics import task_metrics

# the same functions on the same numbers; only the mean of two may round
TOLERANCE = 1e-15


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_equal_scikit_learn(classes):
    generator = np.random.default_rng(1)
    targets = generator.integers(0, classes, 200)
    predictions = np.where(
        generator.random(200) < 0.6, targets, generator.integers(0, classes, 200)
    )
    names = ["accuracy", "mcc"] + ["f1", "acc_and_f1"] * (classes == 2)
    found = task_metrics(names, predictions, targets)
    assert list(found) == names
    accuracy = metrics.accuracy_score(targets, predictions)
    assert found["accuracy"] == accuracy
    assert found["mcc"] == metrics.matthews_corrcoef(targets, predictions)
    if classes == 2:
        f1 = metrics.f1_score(y_true=targets, y_pred=predictions)
        assert found["f1"] == f1
        assert found["acc_and_f1"] == pytest.approx((accuracy + f1) / 2, abs=TOLERANCE)


def test_scores_equal_scipy():
    generator = np.random.default_rng(2)
    targets = generator.random(150).round(1)  # with ties, which ranks must share
    predictions = targets + generator.normal(0, 0.3, 150)
    found = task_metrics(["pearson", "spearman", "pearson_and_spearman"], predictions, targets)
    pearson = stats.pearsonr(predictions, targets)[0]
    spearman = stats.spearmanr(predictions, targets)[0]
    assert found["pearson"] == pearson and found["spearman"] == spearman
    mean = (pearson + spearman) / 2
    assert found["pearson_and_spearman"] == pytest.approx(mean, abs=TOLERANCE)


def test_by_hand():
    # 3 true and 1 false positives, 2 true and 2 false negatives
    targets, predictions = [1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 1]
    found = task_metrics(["accuracy", "f1", "mcc", "acc_and_f1"], predictions, targets)
    assert found == pytest.approx(
        {
            "accuracy": 5 / 8,
            "f1": 2 * 3 / (2 * 3 + 1 + 2),
            "mcc": (3 * 2 - 1 * 2) / (4 * 5 * 3 * 4) ** 0.5,
            "acc_and_f1": (5 / 8 + 2 / 3) / 2,
        },
        abs=1e-12,  # rounding of a few operations on float64
    )
    # deviations (-1, 0, 1) and (-3, 1, 2) from the means; ranks 1 2 3 and 1 2 3
    found = task_metrics(["pearson", "spearman"], [0.1, 0.2, 0.3], [1.0, 5.0, 6.0])
    assert found["pearson"] == pytest.approx(5 / (2 * 14) ** 0.5, abs=1e-12)
    assert found["spearman"] == pytest.approx(1.0, abs=1e-12)


def test_f1_is_of_class_1():
    assert task_metrics(["f1"], [0, 0, 1], [0, 0, 0])["f1"] == 0.0
    assert task_metrics(["f1"], [1, 1, 0], [1, 1, 1])["f1"] == pytest.approx(0.8, abs=1e-12)


@pytest.mark.parametrize("constant", [0, 1])
def test_constant_predictions(constant):
    """Undefined correlations count as 0, without a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = task_metrics(["mcc", "f1", "accuracy"], [constant] * 4, [0, 1, 1, 1])
        scores = task_metrics(
            ["pearson", "spearman", "pearson_and_spearman"], [float(constant)] * 4, [0, 1, 2, 3.5]
        )
    assert found["mcc"] == 0.0
    assert found["accuracy"] == (0.75 if constant else 0.25)
    assert found["f1"] == pytest.approx(6 / 7 if constant else 0.0, abs=1e-12)
    assert set(scores.values()) == {0.0}


@pytest.mark.parametrize(
    "predictions, targets",
    [([1, 0], [1, 0, 1]), ([1], [1]), ([], []), ([[1, 0]], [[1, 0]])],
    ids=["lengths", "one", "none", "matrix"],
)
def test_refused(predictions, targets):
    with pytest.raises(ValueError, match="metrics need equally many of both, two or more"):
        task_metrics(["accuracy"], predictions, targets)


@pytest.mark.parametrize("task", GLUE_TASKS.values(), ids=GLUE_TASKS)
def test_every_task_has_metrics_that_exist(task):
    names = dict.fromkeys([*task.metrics, task.selection])
    predictions, targets = [0, 1, 1, 0], [0, 1, 0, 0]
    assert list(task_metrics(names, predictions, targets)) == list(names)
