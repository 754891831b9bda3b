"""Baselines, class weights, medians, best runs and tables, on numbers checked by hand."""

import json

import numpy as np
import pytest
from sklearn import metrics

from helpers.glue_data import write_data
from helpers.own_tasks import own_rows, own_task, write_own
from tupe_fairseq.data.glue import GLUE_TASKS
from tupe_fairseq.data.task import KINDS
from tupe_fairseq.finetune.command import Run
from tupe_fairseq.finetune.report import (
    overall_results,
    overall_table,
    percent,
    task_table,
    write_overall,
)
from tupe_fairseq.finetune.scoring import (
    Predicted,
    balanced_weights,
    baseline,
    best_run,
    by_learning_rate,
    flat,
    read_predictions,
    score,
    write_predictions,
)
from tupe_fairseq.finetune.task_data import TaskData

COLA = GLUE_TASKS["CoLA"].task
FEW = {"train": 6, "valid": 4, "test": 3}
SETTINGS = {
    "pretrained": True, "epochs": 3, "batch_size": 32, "update_freq": 2, "patience": None,
    "pooling": None, "metric": None, "class_weights": None,
    "checkpoint": {"name": "model.pt", "bytes": 1, "sha256": "abcdef0123456789"},
}  # fmt: skip


def glue_data(tmp_path, name, labels):
    return TaskData.load(str(write_data(tmp_path / name, name, labels)))


def own_data(folder, kind, labels, **options):
    """A task whose texts do not matter."""
    splits = {split: [([[0, 1]], label) for label in of] for split, of in labels.items()}
    return TaskData.load(str(write_own(folder / "mine", own_task(kind), splits, **options)))


def test_majority_class_and_mean_score(tmp_path):
    labels = {"train": [1, 1, 0], "valid": [0, 0, 1], "test": [0]}
    found = baseline(glue_data(tmp_path, "MRPC", labels))
    assert found["answer"] == "1"
    assert found["metrics"]["valid"]["accuracy"] == metrics.accuracy_score([0, 0, 1], [1, 1, 1])
    assert found["metrics"]["valid"]["f1"] == metrics.f1_score([0, 0, 1], [1, 1, 1])
    # a score, on the task's own scale
    labels = {"train": [-1.0, 7.0, 3.0], "valid": [0.5, 6.0], "test": [1.0, 2.0]}
    data = own_data(tmp_path, "regression", labels)
    np.testing.assert_allclose(data.targets("valid"), [0.5, 6.0])
    assert baseline(data)["answer"] == "3.000"


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
    labels = {"train": train, "valid": [[0, 1], [1]], "test": [[0], []]}
    data = own_data(tmp_path, "multilabel", labels)
    assert data.targets("valid").tolist() == [[True, True], [False, True]]
    found = baseline(data)
    assert found["answer"] == answer
    assert found["metrics"]["valid"]["micro_f1"] == pytest.approx(f1)


def test_most_frequent_tag_of_each_word(tmp_path):
    """Words are told apart by all their tokens; an unknown one has the most frequent tag of all."""
    run, runs, dog, new = [1], [1, 2], [3], [4, 2]
    splits = {
        "train": [([run, dog], [1, 0]), ([run, runs], [1, 2]), ([run, dog, dog], [0, 0, 0])],
        "valid": [([runs, new], [2, 0]), ([run, dog, new], [1, 1, 2])],
        "test": [([dog], [0]), ([dog], [1])],
    }
    data = TaskData.load(str(write_own(tmp_path / "mine", own_task("tagging"), splits)))
    assert [row.tolist() for row in data.targets("valid")] == [[2, 0], [1, 1, 2]]
    found = baseline(data)
    assert found["answer"] == "NOUN"
    # right: runs, new, run; wrong: dog, new
    assert found["metrics"]["valid"]["accuracy"] == 3 / 5
    assert found["test"]["test"]["accuracy"] == 1 / 2


def test_balanced_weights(tmp_path):
    labels = {"train": [0, 0, 0, 1, 1, 2], "valid": [0, 0], "test": []}
    weights = balanced_weights(own_data(tmp_path / "classes", "classification", labels))
    assert weights == [pytest.approx(6 / 9, rel=1e-5), 1.0, 2.0]
    # so that rows with a label weigh as much as those without
    labels = {"train": [[0], [0], [0, 1], []], "valid": [[], []], "test": []}
    weights = balanced_weights(own_data(tmp_path / "labels", "multilabel", labels))
    assert weights == [pytest.approx(1 / 3, rel=1e-5), 3.0]


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_read_as_they_were_written(kind, tmp_path):
    task = own_task(kind)
    data = TaskData.load(str(write_own(tmp_path / "mine", task, own_rows(task, FEW))))
    targets, path = data.targets("valid"), str(tmp_path / "predictions-valid.tsv")
    if kind == "multilabel":
        predictions = ~targets
    elif kind == "regression":
        predictions = targets / 3
    else:
        predictions = [(row + 1) % 3 for row in targets]
        predictions = predictions if kind == "tagging" else np.array(predictions)
    write_predictions(path, task, Predicted(predictions, targets))
    found = read_predictions(path, data, "valid")
    for read, written in zip(found, (predictions, targets)):
        np.testing.assert_array_equal(flat(read), flat(written))
        assert list(map(np.shape, read)) == list(map(np.shape, written))


def test_labels_are_spelled_as_users_do(tmp_path):
    task, path = own_task("classification", labels=("a\tb", "<pad>")), tmp_path / "one.tsv"
    write_predictions(str(path), task, Predicted(np.array([0, 1]), None))
    assert path.read_text() == 'prediction\n"a\\tb"\n<pad>\n'
    labels = np.array([[1, 1], [0, 0], [0, 1]], bool)
    write_predictions(str(path), own_task("multilabel"), Predicted(labels, None))
    assert path.read_text() == 'prediction\n["a, b", "c d"]\n[]\n["c d"]\n'


def results_of(*rows, names=("mcc",), splits=("valid",)):
    """Results of runs, each (lr, seed, score of each metric and split); None: it diverged."""
    results = {}
    for lr, seed, *values in rows:
        run, found = Run(lr, seed), iter(values)
        scores = {split: {name: next(found) for name in names} for split in splits}
        results[run] = {
            "run": run.name, "lr": run.lr_text, "seed": seed, "epochs": 3,
            "diverged": "nan" if None in values else None,
            "metrics": None if None in values else scores,
        }  # fmt: skip
    return results


def summary_of(task, results, constant=0.0, settings=SETTINGS):
    """What write_task writes of these."""
    best, table = best_run(results, task), by_learning_rate(results, task)
    best_lr = max(table, key=lambda row: row["metrics"]["valid"][task.selection])
    row = {split: dict.fromkeys(metrics, constant) for split, metrics in
           best_lr["metrics"].items()}  # fmt: skip
    return {
        "task": task.name, "settings": settings, "by_lr": table, "best_lr": best_lr["lr"],
        "score": score(best_lr["metrics"], task), "best_run": best and best.name,
        "best_run_score": best and score(results[best]["metrics"], task),
        "baseline_score": score(row, task), "baseline": {"answer": "0", "metrics": row},
        "runs": [results[run] for run in sorted(results)],
    }  # fmt: skip


def test_median_and_best_run_are_chosen_apart():
    """The best single run may have another learning rate than the best median."""
    results = results_of(
        (2e-5, 1, 0.9), (2e-5, 2, 0.1), (2e-5, 3, 0.2),
        (1e-5, 1, 0.3), (1e-5, 2, 0.4), (1e-5, 10, 0.5),
    )  # fmt: skip
    summary = summary_of(COLA, results)
    assert [row["lr"] for row in summary["by_lr"]] == ["1e-5", "2e-5"]  # by size, not as text
    assert [row["metrics"]["valid"]["mcc"] for row in summary["by_lr"]] == [0.4, 0.2]
    assert summary["best_lr"] == "1e-5" and summary["best_run"] == "lr2e-5-seed1"
    table = task_table(summary, COLA)
    assert "| 1e-5 (best) | 3 | 40.0 |" in table and "| lr2e-5-seed1 (best) | 3 | 90.0 |" in table


def test_a_diverged_run_counts_as_zero():
    results = results_of((2e-5, 1, 0.6), (2e-5, 2, None), (2e-5, 3, 0.4))
    (row,) = by_learning_rate(results, COLA)
    assert row["diverged"] == 1 and row["metrics"]["valid"]["mcc"] == 0.4
    assert best_run(results_of((2e-5, 2, None)), COLA) is None
    assert percent(-1e-5) == "0.0" and percent(-0.126) == "-12.6" and percent(None) == "diverged"


def summaries(settings=SETTINGS):
    """CoLA, MNLI, and WNLI with these settings."""
    one = {"names": ["accuracy"]}
    mnli = results_of((2e-5, 1, 0.8, 0.7), (2e-5, 2, 0.6, 0.9), splits=["valid", "valid1"], **one)
    wnli = results_of((2e-5, 1, 0.5), **one)
    return [
        summary_of(COLA, results_of((2e-5, 1, 0.3))),
        summary_of(GLUE_TASKS["MNLI"].task, mnli, 0.35),
        summary_of(GLUE_TASKS["WNLI"].task, wnli, 0.56, settings),
    ]


def test_all_tasks(tmp_path):
    for summary in summaries():
        (tmp_path / summary["task"]).mkdir()
        (tmp_path / summary["task"] / "results.json").write_text(json.dumps(summary))
    write_overall(str(tmp_path))
    overall = json.loads((tmp_path / "results.json").read_text())
    assert overall["tasks"]["MNLI"]["score"] == pytest.approx(0.75)  # medians 0.7 and 0.8
    assert overall["average"]["score"] == pytest.approx((0.3 + 0.75 + 0.5) / 3)
    assert overall["average"]["baseline_score"] == pytest.approx((0.35 + 0.56) / 3)
    assert overall["average_without_wnli"]["score"] == pytest.approx((0.3 + 0.75) / 2)
    table = (tmp_path / "results.md").read_text()
    assert "| MNLI | 75.0 | 75.0 | 35.0 | 2e-5 | 2 | accuracy matched 70.0, " in table
    assert "| average of 3 of 9 tasks | 51.7 |" in table
    assert "| average of 2 of 9 tasks without WNLI | 52.5 |" in table


def test_no_average_over_different_models():
    overall = overall_results(summaries({**SETTINGS, "pooling": "mean"}))
    assert overall["average"] is None and "| WNLI (mean" in overall_table(overall)
