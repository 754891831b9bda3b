"""tupe-finetune on your own tasks of every kind, through fairseq-train on tiny data."""

import json
import math
import re

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from helpers.glue_data import write_checkpoint
from helpers.own_tasks import ROWS, own_rows, own_task, write_own
from helpers.running import call_program
from tupe_fairseq.data.task import KINDS

FLAGS = {
    "classification": ["--balance", "--metric", "macro_f1"],
    "regression": [],
    "multilabel": ["--balance"],
    "tagging": ["--balance"],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each kind of task."""
    folder = tmp_path_factory.mktemp("own tasks")
    write_checkpoint(folder / "model.pt")
    for kind in KINDS:
        task = own_task(kind, name=kind, texts=2 if kind == "classification" else 1)
        # windows of tags: some sentences are longer than the model
        rows = own_rows(task, longest=40 if kind == "tagging" else 6)
        write_own(folder / kind, task, rows, has_test_labels=kind != "multilabel")
        code, text = finetune(folder, kind)
        assert code == 0, text
        assert "WARNING: 16 rows for validation are too few" in text
    return folder


def finetune(folder, kind, *flags):
    words = ["--data", folder / kind, "--checkpoint", folder / "model.pt", "--output-dir",
             folder / "runs", "--cpu", "--no-pretraining", "--batch-size", 8, "--lrs", "1e-2",
             "--seeds", 1, "--epochs", 3, "--patience", 1, *FLAGS[kind], *flags]  # fmt: skip
    return call_program("finetune", words)


def rows_of(path):
    header, *rows = path.read_text().splitlines()
    assert header == "prediction\ttarget"
    return list(zip(*(row.split("\t") for row in rows)))


def score(kind, predictions, targets):
    """The metric that picks checkpoints, by the libraries alone, from a file's cells."""
    if kind == "classification":
        return metrics.f1_score(targets, predictions, average="macro")
    if kind == "regression":
        sides = np.array([predictions, targets], dtype=float)
        return (stats.pearsonr(*sides)[0] + stats.spearmanr(*sides)[0]) / 2
    sides = [[json.loads(cell) for cell in side] for side in (predictions, targets)]
    if kind == "multilabel":
        labels = own_task(kind).labels
        x, y = ([[label in row for label in labels] for row in side] for side in sides)
        return metrics.f1_score(np.array(y).ravel(), np.array(x).ravel())
    return metrics.accuracy_score(*(sum(side, []) for side in sides))


@pytest.mark.parametrize("kind", KINDS)
def test_the_score_is_that_of_the_predictions(kind, runs):
    task = runs / "runs" / kind
    result = json.loads((task / "lr0.01-seed1" / "result.json").read_text())
    predictions, targets = rows_of(task / "lr0.01-seed1" / "predictions-valid.tsv")
    assert len(targets) == ROWS["valid"]
    summary = json.loads((task / "results.json").read_text())
    expected = pytest.approx(score(kind, predictions, targets), abs=1e-6)
    assert result["metrics"]["valid"][summary["selection"]] == expected
    assert summary["score"] == summary["best_run_score"] == expected
    assert summary["description"]["kind"] == kind


@pytest.mark.parametrize("kind", KINDS)
def test_the_test_set(kind, runs):
    """Scored if it has labels, and predicted in any case."""
    task = runs / "runs" / kind
    summary = json.loads((task / "results.json").read_text())
    path = task / "lr0.01-seed1" / "predictions-test.tsv"
    table = (task / "results.md").read_text()
    if kind == "multilabel":
        header, *lines = path.read_text().splitlines()
        assert header == "prediction" and len(lines) == ROWS["test"]
        assert summary["test"] == {} and "## Test set" not in table
        return
    found = summary["test"]["test"][summary["selection"]]
    assert found == pytest.approx(score(kind, *rows_of(path)), abs=1e-6)
    assert "## Test set, by the run that is best on the development set" in table
    assert summary["baseline"]["test"]["test"].keys() == summary["test"]["test"].keys()


@pytest.mark.parametrize("kind", KINDS)
def test_tables_and_figures(kind, runs):
    table = (runs / "runs" / kind / "results.md").read_text()
    names = {path.stem for path in (runs / "runs" / kind).glob("*.png")}
    of_kind = {"regression": {"scatter"}, "multilabel": set()}.get(kind, {"confusion"})
    assert names == {"learning_curves", *of_kind}
    assert ("## Each class, by the best run" in table) == (kind != "regression")
    assert ("Weights of the classes in the loss (--balance)" in table) == (kind != "regression")
    assert "A run ends without a better score for 1 epochs (--patience)." in table
    baseline = {
        "classification": "always ", "regression": "(mean score)", "multilabel": "set of labels)",
        "tagging": "each word's most frequent tag (",
    }  # fmt: skip
    assert baseline[kind] in table
    if kind == "classification":
        assert "Checkpoints are picked by macro F1 (--metric)." in table
        assert "| very \\| good | " in table and "| &lt;pad> | " in table


def test_updates_of_windows(runs):
    """Sentences that are longer than the model are several examples."""
    folder = runs / "runs" / "tagging" / "lr0.01-seed1"
    found = re.search(r"train: (\d+) of 48 .*; (\d+) windows", (folder / "train.log").read_text())
    long, windows = map(int, found.groups())
    assert long > 5 and windows > 48
    planned = 3 * math.ceil(windows / 8)
    assert f"--total-num-update {planned} " in (folder / "command.sh").read_text()


def test_all_tasks(runs):
    table = (runs / "runs" / "results.md").read_text()
    for kind in KINDS:
        assert f"\n| {kind} (not pre-trained) | " in table
    assert "Pearson" in table and "average" not in table
    overall = json.loads((runs / "runs" / "results.json").read_text())
    assert overall["tasks"] == {} and overall["average"] is None
    assert list(overall["own_tasks"]) == sorted(KINDS)


def test_patience_ends_a_run(runs):
    """None of the runs got better in each epoch, but all were planned for three."""
    results = [json.loads(path.read_text()) for path in (runs / "runs").glob("*/lr*/result.json")]
    assert len(results) == 4 and min(one["epochs"] for one in results) < 3


@pytest.mark.parametrize("kind", ["regression", "tagging"])
def test_again(kind, runs):
    """Nothing is trained or predicted; all files are the same."""
    task = runs / "runs" / kind
    (task / "lr0.01-seed1" / "checkpoint_best.pt").unlink()
    names = ("results.json", "results.md", "*.png", "*/*.tsv", "*/result.json")
    before = {path: path.read_bytes() for name in names for path in task.glob(name)}
    code, text = finetune(runs, kind)
    assert code == 0 and "0 of 1 runs left" in text
    assert {path: path.read_bytes() for path in before} == before
    assert len(before) >= 6
