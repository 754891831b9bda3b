"""Baselines, weights and epochs of one's own tasks, on numbers that can be checked by hand."""

import numpy as np
import pytest

from helpers.own_tasks import own_task, write_own
from tupe_fairseq.finetune.baselines import baseline
from tupe_fairseq.finetune.class_weights import balanced_weights
from tupe_fairseq.finetune.default_epochs import default_epochs
from tupe_fairseq.finetune.task_data import read_task_data
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS

TEXT = [[0, 1]]


def data_of(folder, kind, answers, **options):
    """A task whose texts do not matter."""
    task = own_task(kind)
    splits = {split: [(TEXT, answer) for answer in of] for split, of in answers.items()}
    return read_task_data(str(write_own(folder / "mine", task, splits, **options)))


def test_most_frequent_class(tmp_path):
    answers = {"train": [1, 2, 2, 0], "valid": [2, 0, 2, 1], "test": [0, 2]}
    found = baseline(data_of(tmp_path, "classification", answers))
    assert found["answer"] == "very | good"
    assert found["metrics"]["valid"]["accuracy"] == 0.5
    assert found["metrics"]["valid"]["macro_f1"] == pytest.approx(2 * 0.5 / 1.5 / 3)
    assert found["test"]["test"]["accuracy"] == 0.5


def test_a_test_set_without_labels_has_no_baseline(tmp_path):
    answers = {"train": [1, 1], "valid": [0, 1], "test": [0, 0]}
    data = data_of(tmp_path, "classification", answers, has_test_labels=False)
    assert baseline(data)["test"] == {}
    assert not [name for name in data.files() if name.startswith("label/test")]


def test_mean_score_on_the_tasks_own_scale(tmp_path):
    answers = {"train": [-1.0, 7.0, 3.0], "valid": [0.5, 6.0], "test": [1.0, 2.0]}
    data = data_of(tmp_path, "regression", answers)
    np.testing.assert_allclose(data.targets("valid"), [0.5, 6.0])
    found = baseline(data)
    assert found["answer"] == "3.000"
    assert found["metrics"]["valid"]["pearson"] == 0.0


@pytest.mark.parametrize(
    "train, answer, f1",
    [
        ([[], [], [0], [1]], "no label", 0.0),
        # three of the four that it gives are right, and it finds all three
        ([[0, 1], [0, 1], [0]], "a, b, c d", 6 / 7),
    ],
    ids=["none", "both"],
)
def test_most_frequent_set_of_labels(train, answer, f1, tmp_path):
    """valid has three labels on two rows, of which both on the first."""
    answers = {"train": train, "valid": [[0, 1], [1]], "test": [[0], []]}
    data = data_of(tmp_path, "multilabel", answers)
    assert data.targets("valid").tolist() == [[True, True], [False, True]]
    found = baseline(data)
    assert found["answer"] == answer
    assert found["metrics"]["valid"]["micro_f1"] == pytest.approx(f1)


def test_most_frequent_tag_of_each_word(tmp_path):
    """Words are told apart by all their pieces; an unknown one has the most frequent tag of all."""
    run, runs, dog, new = [1], [1, 2], [3], [4, 2]
    splits = {
        "train": [([run, dog], [1, 0]), ([run, runs], [1, 2]), ([run, dog, dog], [0, 0, 0])],
        "valid": [([runs, new], [2, 0]), ([run, dog, new], [1, 1, 2])],
        "test": [([dog], [0]), ([dog], [1])],
    }
    data = read_task_data(str(write_own(tmp_path / "mine", own_task("tagging"), splits)))
    assert [row.tolist() for row in data.targets("valid")] == [[2, 0], [1, 1, 2]]
    found = baseline(data)
    assert found["answer"] == "NOUN"
    # right: runs, new, run; wrong: dog, new
    assert found["metrics"]["valid"]["accuracy"] == 3 / 5
    assert found["test"]["test"]["accuracy"] == 1 / 2


def test_balanced_weights(tmp_path):
    answers = {"train": [0, 0, 0, 1, 1, 2], "valid": [0, 0], "test": []}
    weights = balanced_weights(data_of(tmp_path, "classification", answers))
    assert weights == [pytest.approx(6 / 9, rel=1e-5), 1.0, 2.0]
    assert sum(weights[one] for one in answers["train"]) == pytest.approx(6, rel=1e-5)


def test_balanced_weights_of_labels(tmp_path):
    """So that rows with a label weigh as much as those without."""
    answers = {"train": [[0], [0], [0, 1], []], "valid": [[], []], "test": []}
    weights = balanced_weights(data_of(tmp_path, "multilabel", answers))
    assert weights == [pytest.approx(1 / 3, rel=1e-5), 3.0]


@pytest.mark.parametrize(
    "kind, train, message",
    [
        ("classification", [0, 2, 2], "cannot weigh 'so so', which train of .* has 0 times in 3"),
        (
            "multilabel",
            [[0], [0, 1]],
            "cannot weigh 'a, b'.* 2 times in 2; it needs rows with and with",
        ),
        ("regression", [0.0, 1.0], "weighs classes, but mine is a regression; drop it"),
    ],
)
def test_what_cannot_be_balanced(kind, train, message, tmp_path):
    data = data_of(tmp_path, kind, {"train": train, "valid": train, "test": []})
    with pytest.raises(ValueError, match="^--balance " + message):
        balanced_weights(data)


@pytest.mark.parametrize("updates, epochs", [(1, 50), (6, 50), (7, 43), (30, 10), (1000, 10)])
def test_epochs_of_small_data(updates, epochs):
    assert default_epochs(own_task("classification"), updates) == epochs
    assert default_epochs(GLUE_TASKS["MNLI"].task, updates) == 5
