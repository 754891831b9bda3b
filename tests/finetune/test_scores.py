"""Baselines, medians and tables, on numbers that can be checked by hand."""

import json

import pytest
from scipy import stats
from sklearn import metrics

from helpers.glue_data import write_data
from tupe_fairseq.finetune.baselines import baseline
from tupe_fairseq.finetune.experiment import FineTuningRun
from tupe_fairseq.finetune.overall import overall_results, write_overall
from tupe_fairseq.finetune.overall_table import overall_table
from tupe_fairseq.finetune.scores import best_run, task_results
from tupe_fairseq.finetune.selection import metric_names
from tupe_fairseq.finetune.tables import percent, task_table
from tupe_fairseq.finetune.task_data import read_task_data
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS
from tupe_fairseq.labelled.metrics import task_metrics

COLA = GLUE_TASKS["CoLA"].task
SETTINGS = {
    "pretrained": True, "epochs": 3, "batch_size": 32, "update_freq": 2, "gpus": 1,
    "checkpoint": {"name": "model.pt", "bytes": 1, "sha256": "abcdef0123456789"},
}  # fmt: skip


def result(lr, seed, *values, names=("mcc",), splits=("valid",), diverged=None):
    scores = iter(values)
    found = diverged or {split: {name: next(scores) for name in names} for split in splits}
    return {
        "run": f"lr{lr}-seed{seed}", "lr": lr, "seed": seed, "diverged": diverged,
        "metrics": None if diverged else found,
    }  # fmt: skip


def data_of(tmp_path, name, labels):
    return read_task_data(str(write_data(tmp_path / name, name, labels)))


def test_majority_class_comes_from_train(tmp_path):
    labels = {"train": [1, 1, 0], "valid": [0, 0, 1], "test": [0]}
    found = baseline(data_of(tmp_path, "MRPC", labels))
    assert found["answer"] == "1"
    assert found["metrics"]["valid"]["accuracy"] == metrics.accuracy_score([0, 0, 1], [1, 1, 1])
    assert found["metrics"]["valid"]["f1"] == metrics.f1_score([0, 0, 1], [1, 1, 1])
    assert found["metrics"]["valid"]["acc_and_f1"] == pytest.approx((1 / 3 + 1 / 2) / 2)


def test_majority_class_of_mnli_on_both_sets(tmp_path):
    labels = {"train": [2, 2, 0], "valid": [2, 1], "valid1": [0, 0, 2, 2]}
    found = baseline(data_of(tmp_path, "MNLI", labels))
    assert found["answer"] == "neutral"
    assert found["metrics"] == {"valid": {"accuracy": 0.5}, "valid1": {"accuracy": 0.5}}


def test_constant_of_a_regression(tmp_path):
    labels = {"train": [1.0, 4.0], "valid": [0.5, 2.0, 5.0]}
    data = data_of(tmp_path, "STS-B", labels)
    assert data.targets("valid").tolist() == pytest.approx([0.5, 2.0, 5.0])
    found = baseline(data)
    assert found["answer"] == "2.500"
    expected = {"pearson": 0.0, "spearman": 0.0, "pearson_and_spearman": 0.0}
    assert found["metrics"]["valid"] == expected


def test_metrics_are_the_libraries():
    predictions, targets = [0, 1, 1, 0, 1, 1], [0, 1, 0, 0, 1, 1]
    found = task_metrics(["mcc"], predictions, targets)
    assert found["mcc"] == metrics.matthews_corrcoef(targets, predictions)
    scores = [0.1, 0.4, 0.35, 0.8, 0.2, 0.9]
    found = task_metrics(["pearson", "spearman"], scores, targets)
    assert found["pearson"] == stats.pearsonr(scores, targets)[0]
    assert found["spearman"] == stats.spearmanr(scores, targets)[0]


def by_run(results):
    """As Experiment.finished gives them."""
    found = {FineTuningRun(float(r["lr"]), r["seed"]): r for r in results}
    return dict(sorted(found.items()))


def summary_of(task, results, constant=0.0, settings=SETTINGS):
    splits = [split for split in task.splits if split.startswith("valid")]
    row = {split: dict.fromkeys(metric_names(task), constant) for split in splits}
    results = by_run(results)
    best = best_run(results, task)
    return task_results(task, settings, results, best, {"answer": "0", "metrics": row})


def test_median_and_best_run_are_chosen_apart():
    """The best single run may have another learning rate than the best median."""
    runs = [result("2e-5", s, v) for s, v in ((1, 0.9), (2, 0.1), (3, 0.2))]
    runs += [result("1e-5", s, v) for s, v in ((1, 0.3), (2, 0.4), (10, 0.5))]
    summary = summary_of(COLA, runs)
    assert [row["lr"] for row in summary["by_lr"]] == ["1e-5", "2e-5"]  # by size, not as text
    assert [row["metrics"]["valid"]["mcc"] for row in summary["by_lr"]] == [0.4, 0.2]
    assert summary["best_lr"] == "1e-5"
    assert summary["best_run"] == "lr2e-5-seed1"
    table = task_table(summary, COLA)
    assert "| 1e-5 (best) | 3 | 40.0 |" in table
    assert "| 2e-5 | 3 | 20.0 |" in table
    assert "| lr2e-5-seed1 (best) | 90.0 |" in table
    assert "| always 0 (majority class) |  | 0.0 |" in table
    assert "3 epochs; 64 rows per update." in table


def test_a_diverged_run_counts_as_zero():
    runs = [result("2e-5", 1, 0.6), result("2e-5", 2, diverged="nan"), result("2e-5", 3, 0.4)]
    summary = summary_of(COLA, runs)
    (row,) = summary["by_lr"]
    assert row["diverged"] == 1
    assert row["metrics"]["valid"]["mcc"] == 0.4
    assert "| lr2e-5-seed2 | diverged |" in task_table(summary, COLA)


def test_all_diverged():
    runs = [result("2e-5", 1, diverged="nan")]
    assert best_run(by_run(runs), COLA) is None
    summary = summary_of(COLA, runs)
    assert (summary["best_run"], summary["best_run_score"]) == (None, None)
    assert percent(-1e-5) == "0.0" and percent(-0.126) == "-12.6"


def overall_of(settings=SETTINGS):
    mnli = [
        result("2e-5", 1, 0.8, 0.7, names=["accuracy"], splits=["valid", "valid1"]),
        result("2e-5", 2, 0.6, 0.9, names=["accuracy"], splits=["valid", "valid1"]),
    ]
    wnli = [result("2e-5", 1, 0.5, names=["accuracy"])]
    return [
        summary_of(COLA, [result("2e-5", 1, 0.3)]),
        summary_of(GLUE_TASKS["MNLI"].task, mnli, 0.35),
        summary_of(GLUE_TASKS["WNLI"].task, wnli, 0.56, settings),
    ]


def test_overall(tmp_path):
    for summary in overall_of():
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
    overall = overall_results(overall_of({**SETTINGS, "pretrained": False}))
    assert overall["average"] is None and not overall["one_model"]
    overall = overall_results(overall_of({**SETTINGS, "pretrained": False, "pooling": "mean"}))
    assert "| WNLI (not pre-trained, mean pooling) | 50.0 |" in overall_table(overall)


def test_no_average_over_different_poolings():
    overall = overall_results(overall_of({**SETTINGS, "pooling": "mean"}))
    table = overall_table(overall)
    assert overall["average"] is None and "No average, because" in table
    assert "| WNLI (mean pooling) | 50.0 |" in table and "| CoLA | 30.0 |" in table


def test_two_metrics_count_with_their_mean():
    names = ("f1", "accuracy", "acc_and_f1")
    runs = [result("2e-5", 1, 0.9, 0.8, 0.85, names=names)]
    summary = summary_of(GLUE_TASKS["MRPC"].task, runs)
    assert summary["score"] == pytest.approx(0.85)
    header = "| learning rate | seeds | F1 | accuracy | mean of both |"
    assert header in task_table(summary, GLUE_TASKS["MRPC"].task)
