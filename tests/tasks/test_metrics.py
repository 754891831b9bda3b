"""Metrics against scikit-learn, scipy, seqeval and values worked out by hand."""

import warnings

import numpy as np
import pytest
from scipy import stats
from seqeval.metrics import f1_score
from sklearn import metrics

from tupe_fairseq.glue.glue_tasks import GLUE_TASKS
from tupe_fairseq.labelled.metrics import METRICS, check_metrics, task_metrics
from tupe_fairseq.labelled.task_description import KINDS

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


@pytest.mark.parametrize("metric", METRICS)
def test_a_metric_is_for_a_kind_of_task(metric):
    assert METRICS[metric].kinds and set(METRICS[metric].kinds) <= set(KINDS)


def test_labels_equal_scikit_learn():
    generator = np.random.default_rng(3)
    targets = generator.random((80, 4)) < [0.7, 0.4, 0.1, 0.0]  # the last one nobody has
    predictions = targets ^ (generator.random((80, 4)) < [0.1, 0.3, 0.2, 0.05])
    found = task_metrics(["micro_f1", "macro_f1"], predictions, targets)
    for average in ("micro", "macro"):
        expected = metrics.f1_score(targets, predictions, average=average, zero_division=0)
        assert found[f"{average}_f1"] == expected
    # by hand: of all labels, and of each
    hits = (targets & predictions).sum(0)
    both = targets.sum(0) + predictions.sum(0)
    assert found["micro_f1"] == pytest.approx(2 * hits.sum() / both.sum(), abs=1e-12)
    assert found["macro_f1"] == pytest.approx((2 * hits / both).mean(), abs=1e-12)


def test_macro_f1_of_classes_by_hand():
    # class 0: 1 of 2 found, 1 wrong; class 1: 1 of 1 and 1 wrong; class 2: none of 1
    found = task_metrics(["macro_f1"], [0, 1, 1, 0], [0, 0, 1, 2])
    assert found["macro_f1"] == pytest.approx((1 / 2 + 2 / 3 + 0) / 3, abs=1e-12)


TARGETS = [["B-a", "I-a", "O", "B-b"], ["O", "B-a"], []]
PREDICTIONS = [["B-a", "I-a", "O", "B-a"], ["B-a", "I-a"], []]


def test_tags_by_hand():
    """Entities: (a 0-1) of (a 0-1) (b 3) (a 1), with (a 3) and (a 0-1) found wrongly."""
    found = task_metrics(["accuracy", "entity_f1"], PREDICTIONS, TARGETS)
    assert found == {"accuracy": 3 / 6, "entity_f1": pytest.approx(2 * 1 / (3 + 3), abs=1e-12)}


def test_tags_equal_seqeval():
    generator, tags = np.random.default_rng(4), np.array(["O", "B-x", "I-x", "B-y", "I-y"])
    targets = [tags[generator.integers(0, 5, n)].tolist() for n in generator.integers(0, 9, 60)]
    predictions = [
        [tag if generator.random() < 0.7 else tags[generator.integers(5)].item() for tag in row]
        for row in targets
    ]
    found = task_metrics(["entity_f1", "accuracy"], predictions, targets)
    assert 0.2 < found["entity_f1"] == f1_score(targets, predictions) < found["accuracy"]


def test_an_entity_may_begin_with_i():
    """As CoNLL's script has it: I-b after I-a, or after O, begins another one."""
    rows = [["O", "I-a", "I-b"], ["O"]]
    assert task_metrics(["entity_f1"], [["O", "B-a", "B-b"], ["O"]], rows)["entity_f1"] == 1


def test_nothing_to_find_counts_as_0():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert task_metrics(["entity_f1"], [["O"], ["O"]], [["O"], ["O"]]) == {"entity_f1": 0}
        none = np.zeros((3, 2), dtype=bool)
        assert task_metrics(["micro_f1", "macro_f1"], none, none) == {"micro_f1": 0, "macro_f1": 0}


def test_rows_with_too_few_tags_are_refused():
    with pytest.raises(ValueError, match="row 2 has 1 predicted tags for 2 words"):
        task_metrics(["accuracy"], [["O"], ["O"]], [["O"], ["O", "O"]])


def test_an_unknown_metric_is_refused():
    with pytest.raises(ValueError, match="there is no metric 'bleu'; there are accuracy, f1, mac"):
        task_metrics(["bleu"], [0, 1], [0, 1])


@pytest.mark.parametrize(
    "name, kind, labels, message",
    [
        ("bleu", "regression", [], "--metrics: 'bleu' is unknown; for regression there are pear"),
        ("pearson", "tagging", ["O"], "'pearson' is not for this kind of task; for tagging there"),
        ("f1", "classification", "abc", "f1 is of the second of two classes, and there are 3"),
        ("entity_f1", "tagging", ["O", "NN"], "entity_f1 needs tags O, B-.*'NN' is none of them"),
        ("entity_f1", "tagging", ["O", "B-"], "'B-' is none of them"),
    ],
)
def test_a_metric_of_other_tasks_is_refused(name, kind, labels, message):
    with pytest.raises(ValueError, match=message):
        check_metrics([name], kind, labels, "--metrics")


def test_a_task_s_own_metrics_are_not_refused():
    check_metrics(["entity_f1", "accuracy"], "tagging", ["O", "B-x-y", "I-x-y"], "--metrics")
    check_metrics(["f1", "macro_f1", "acc_and_f1"], "classification", ["a", "b"], "--metrics")
    check_metrics(["micro_f1", "macro_f1"], "multilabel", ["a"], "--metrics")
