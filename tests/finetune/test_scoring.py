"""Metrics, baselines, class weights, medians, best runs and tables, checked by hand."""

import warnings

import numpy as np
import pytest
from sklearn import metrics

from helpers.glue_data import own_task, write_data, write_task
from tupe_fairseq.data.metrics import task_metrics
from tupe_fairseq.files import write_json
from tupe_fairseq.finetune.experiment import balanced_weights
from tupe_fairseq.finetune.fine_tuning import FineTuning
from tupe_fairseq.finetune.results import (
    best_run,
    by_learning_rate,
    score,
    write_overall,
)
from tupe_fairseq.labelled.glue import GLUE_TASKS
from tupe_fairseq.labelled.task_folder import TaskData
from tupe_fairseq.results.scores import baseline, write_predictions

COLA = GLUE_TASKS["CoLA"]


def test_metrics_of_a_test_set_of_one_row():
    assert task_metrics(["accuracy", "macro_f1", "mcc"], [1], [1]) == {
        "accuracy": 1, "macro_f1": 1, "mcc": 0,
    }  # fmt: skip
    assert task_metrics(["pearson", "spearman"], [0.1], [0.2]) == {"pearson": 0, "spearman": 0}
    assert task_metrics(["entity_f1"], [["B-a"]], [["B-a"]]) == {"entity_f1": 1}


def test_metrics_of_tags():
    # as in CoNLL's script, I-b after I-a begins an entity
    rows = [["O", "I-a", "I-b"], ["O"]]
    assert task_metrics(["entity_f1"], [["O", "B-a", "B-b"], ["O"]], rows)["entity_f1"] == 1
    # the same entities in BIO, IOB1, BIOES and BILOU: of two words, and two of one word
    schemes = ["B-a I-a B-a O B-b", "I-a I-a B-a O I-b", "B-a E-a S-a O S-b", "B-a L-a U-a O U-b"]
    for tags in map(str.split, schemes):
        assert task_metrics(["entity_f1"], [schemes[0].split()] * 2, [tags] * 2)["entity_f1"] == 1
        found = task_metrics(["entity_f1"], [[*tags[:4], "O"]] * 2, [tags] * 2)["entity_f1"]
        assert found == pytest.approx(2 * 2 / (2 + 3), abs=1e-12)


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


def test_majority_class_and_mean_score(tmp_path):
    labels = {"train": [1, 1, 0], "valid": [0, 0, 1], "test": [None]}
    found = baseline(TaskData.load(str(write_data(tmp_path / "MRPC", "MRPC", labels))))
    assert found["answer"] == "1"
    assert found["metrics"]["valid"]["accuracy"] == metrics.accuracy_score([0, 0, 1], [1, 1, 1])
    assert found["metrics"]["valid"]["f1"] == metrics.f1_score([0, 0, 1], [1, 1, 1])
    # a score, on the task's own scale
    labels = {"train": [-1.0, 7.0, 3.0], "valid": [0.5, 6.0], "test": [1.0, 2.0]}
    data = TaskData.load(str(write_data(tmp_path / "mine", own_task("regression"), labels)))
    np.testing.assert_allclose(data.targets("valid"), [0.5, 6.0])
    assert baseline(data)["answer"] == "3.000"


def test_most_frequent_tag_of_each_word(tmp_path):
    """Words differ if any token does; an unknown word gets the most frequent tag of all."""
    run, runs, dog, new = [1], [1, 2], [3], [4, 2]
    splits = {
        "train": [([run, dog], [1, 0]), ([run, runs], [1, 2]), ([run, dog, dog], [0, 0, 0])],
        "valid": [([runs, new], [2, 0]), ([run, dog, new], [1, 1, 2])],
        "test": [([dog], [0]), ([dog], [1])],
    }
    data = TaskData.load(str(write_task(tmp_path / "mine", own_task("tagging"), splits)))
    assert [row.tolist() for row in data.targets("valid")] == [[2, 0], [1, 1, 2]]
    found = baseline(data)
    assert found["answer"] == "NOUN"
    # right: runs, new, run; wrong: dog, new
    assert found["metrics"]["valid"]["accuracy"] == 3 / 5
    assert found["test"]["test"]["accuracy"] == 1 / 2


def test_balanced_weights(tmp_path):
    # multilabel: rows with a label weigh as much as rows without it
    for kind, labels, expected in (
        ("classification", [0, 0, 0, 1, 1, 2], [6 / 9, 1, 2]),
        ("multilabel", [[0], [0], [0, 1], []], [1 / 3, 3]),
    ):
        splits = {"train": labels, "valid": labels[:2], "test": []}
        data = TaskData.load(str(write_data(tmp_path / kind, own_task(kind), splits)))
        assert balanced_weights(data) == pytest.approx(expected, rel=1e-5)


def test_labels_are_spelled_as_users_do(tmp_path):
    path, labels = tmp_path / "one.tsv", ["a\tb", "<pad>"]
    write_predictions(str(path), [{"label": one} for one in labels], None, [])
    assert path.read_text() == 'prediction\n"a\\tb"\n<pad>\n'
    found = [{"label": one, "probability": 0.75} for one in labels]
    write_predictions(str(path), found, ["<pad>", "<pad>"], ["0", "7"])
    header, _, last = path.read_text().splitlines()
    assert header == "row\tprediction\ttarget\tprobability" and last == "7\t<pad>\t<pad>\t0.75"
    labels = (task := own_task("multilabel")).kind.spell(
        np.array([[1, 1], [0, 0], [0, 1]], bool), task
    )
    write_predictions(str(path), [{"labels": one} for one in labels], None, [])
    assert path.read_text() == 'prediction\n["a, b", "c d"]\n[]\n["c d"]\n'


def results_of(task, *rows):
    """Results of runs, each (lr, seed, score of each development set); None: it diverged."""
    results = {}
    for lr, seed, *scores in rows:
        found = {split: {task.selection: x} for split, x in zip(("valid", "valid1"), scores)}
        run = FineTuning(lr, seed, None)
        results[run] = {"lr": run.lr_text, "seed": seed, "metrics": found if scores[0] else None}
    return results


def test_median_and_best_run_are_chosen_apart():
    """The best single run may have another learning rate than the best median."""
    results = results_of(
        COLA, (2e-5, 1, 0.9), (2e-5, 2, 0.1), (2e-5, 10, 0.2),
        (1e-5, 1, 0.3), (1e-5, 2, 0.4), (1e-5, 10, 0.5),
    )  # fmt: skip
    table, best = by_learning_rate(results, COLA)
    assert [row["lr"] for row in table] == ["1e-5", "2e-5"]  # by size, not as text
    assert [row["metrics"]["valid"]["mcc"] for row in table] == [0.4, 0.2]
    assert best_run(results, COLA) == FineTuning(2e-5, 1, None)
    assert best["lr"] == "1e-5"
    # a grid that was interrupted or extended: rates are compared at the seeds that all have
    more = results_of(
        COLA, (2e-5, 1, 0.9), (2e-5, 2, 0.9), (5e-5, 1, 0.6), (5e-5, 2, 0.5), (5e-5, 3, 0.55),
    )  # fmt: skip
    row = by_learning_rate(more, COLA)[1]
    assert (row["lr"], row["seeds"], row["metrics"]["valid"]["mcc"]) == ("2e-5", [1, 2], 0.9)
    lucky = results_of(COLA, *((2e-5, n, 0.7 - n / 10) for n in range(1, 6)), (5e-5, 1, 0.55))
    row = by_learning_rate(lucky, COLA)[1]
    assert (row["lr"], row["metrics"]["valid"]["mcc"]) == ("2e-5", pytest.approx(0.4))
    apart = results_of(COLA, (2e-5, 1, 0.9), (5e-5, 2, 0.5), (5e-5, 3, 0.5))
    assert (
        by_learning_rate(apart, COLA)[1]["lr"] == "5e-5"
    )  # without common seeds, the one with more
    # a diverged run is below all others; if half of the runs are, so is the median
    results = results_of(
        COLA, (1e-5, 1, 0.6), (1e-5, 2, None), (1e-5, 3, -0.4), (2e-5, 1, 0.9), (2e-5, 2, None),
    )  # fmt: skip
    table, _ = by_learning_rate(results, COLA)
    assert [row["diverged"] for row in table] == [1, 1]
    assert table[0]["metrics"]["valid"]["mcc"] == -0.4 and table[1]["metrics"] is None
    results = results_of(COLA, (1e-5, 1, -0.4), (2e-5, 1, None))
    assert by_learning_rate(results, COLA)[1]["lr"] == "1e-5"
    assert best_run(results_of(COLA, (2e-5, 2, None)), COLA) is None


def summary(name, baseline, *scores, **settings):
    """The results of a task that the table needs; ``scores`` are lists, a score for each set."""
    task = GLUE_TASKS[name]
    rows = ((2e-5, seed, *each) for seed, each in enumerate(scores, 1))
    _, row = by_learning_rate(results_of(task, *rows), task)
    model = {"pretrained": True, "pooling": None, "checkpoint": {"sha256": "a"}}
    return {
        "task": name, "settings": {**model, **settings}, "by_lr": [row], "best_lr": row["lr"],
        "score": score(row["metrics"], task), "best_run": "x", "best_run_score": 0.9,
        "baseline_score": baseline, "baseline": {}, "selection": task.selection,
    }  # fmt: skip


def test_all_tasks(tmp_path):
    """RUNS may also hold results of tupe-predict --report, tupe-score or tupe-compare."""
    found = [summary("CoLA", 0.0, [0.3]), summary("MNLI", 0.35, [0.8, 0.7], [0.6, 0.9])]
    for one in (*found, summary("WNLI", 0.56, [0.5], pooling="mean"), {"metrics": {}}):
        write_json(str(tmp_path / one.get("task", "report") / "results.json"), one)
    for name in ("mine10", "mine2"):
        write_json(str(tmp_path / name / "results.json"), {**found[0], "task": name})
    write_overall(str(tmp_path))
    table = (tmp_path / "results.md").read_text()
    assert table.index("mine2") < table.index("mine10")
    assert "| MNLI | 75.0 | 90.0 | 35.0 | 2e-5 | 2 |\n" in table  # medians 0.7 and 0.8
    assert "| WNLI (mean pooling) | 50.0 | 90.0 | 56.0 |" in table
