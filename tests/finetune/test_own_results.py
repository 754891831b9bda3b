"""Results of one's own tasks beside GLUE's, of more classes than a page shows, and damaged ones."""

import json
from dataclasses import replace

import numpy as np
import pytest

from helpers.finished_runs import RUN, finished_experiment, run_again
from helpers.glue_data import write_checkpoint
from helpers.own_tasks import own_rows, own_task, write_own
from tupe_fairseq.files.steps import keep_settings
from tupe_fairseq.finetune import pictures
from tupe_fairseq.finetune.experiment import Experiment, RunSettings
from tupe_fairseq.finetune.overall import write_overall
from tupe_fairseq.finetune.prediction_file import Predicted, write_predictions
from tupe_fairseq.finetune.pretrained import read_pretrained
from tupe_fairseq.finetune.protocol import run_protocol, settings_of
from tupe_fairseq.finetune.selection import by_metric, metric_names
from tupe_fairseq.finetune.tables import metric_in_words
from tupe_fairseq.finetune.task_data import read_task_data
from tupe_fairseq.labelled.class_scores import class_scores, most_frequent

FEW = {"train": 4, "valid": 3, "test": 2}


def finished_own(folder, kind="classification", diverged=None, **options):
    """A finished run of one's own task, written without training; what it predicted is right."""
    task = own_task(kind, **options)
    data = read_task_data(str(write_own(folder / "mine", task, own_rows(task, FEW))))
    model = read_pretrained(str(write_checkpoint(folder / "own.pt")))
    settings = RunSettings(epochs=2, batch_size=3, gpus=0)
    experiment = Experiment(str(folder / "runs" / task.name), data, model, settings)
    keep_settings(experiment.folder, settings_of(experiment))
    of_run = folder / "runs" / task.name / RUN.name
    of_run.mkdir()
    scores = None if diverged else {"valid": dict.fromkeys(metric_names(task), 0.25)}
    result = {
        "run": RUN.name, "lr": RUN.lr_text, "seed": RUN.seed, "pretrained": True, "updates": 4,
        "epochs": 2, "diverged": diverged, "metrics": scores,
    }  # fmt: skip
    (of_run / "result.json").write_text(json.dumps(result))
    for split in () if diverged else ("valid", "test"):
        targets = data.targets(split)
        write_predictions(str(of_run / f"predictions-{split}.tsv"), data, Predicted(*[targets] * 2))
    return experiment


def test_glue_and_own_tasks(tmp_path):
    """GLUE's table is as it is alone; its average is over GLUE's tasks."""
    run_again(finished_experiment(tmp_path, "RTE"))
    alone = (tmp_path / "runs" / "results.md").read_text()
    run_protocol(finished_own(tmp_path), [RUN], keep_checkpoints=False)
    table = (tmp_path / "runs" / "results.md").read_text()
    assert table.startswith(alone) and "| average of 1 of 9 tasks | 50.0 |" in table
    rest = table[len(alone) :]
    assert rest.startswith("\n# Tasks of one's own") and "\n| mine | accuracy | 25.0 | " in rest
    overall = json.loads((tmp_path / "runs" / "results.json").read_text())
    assert list(overall["tasks"]) == ["RTE"] and list(overall["own_tasks"]) == ["mine"]
    assert overall["own_tasks"]["mine"]["test"]["test"]["accuracy"] == 1.0
    # and what is not of this command is left alone
    (tmp_path / "runs" / "else").mkdir()
    (tmp_path / "runs" / "else" / "results.json").write_text("{}")
    write_overall(str(tmp_path / "runs"))
    assert (tmp_path / "runs" / "results.md").read_text() == table


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"score": None}, "score is missing"),
        ({"test": {"test": {}}}, "test.test.accuracy is missing"),
        ({"description": {}}, "description.name is missing"),
        ({"by_lr": [{"lr": "2e-5", "seeds": [1], "metrics": {}}]}, "metrics.valid is missing"),
    ],
)
def test_damaged_results(change, reason, tmp_path):
    run_protocol(finished_own(tmp_path), [RUN], keep_checkpoints=False)
    path = tmp_path / "runs" / "mine" / "results.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=reason) as error:
        run_again(finished_experiment(tmp_path, "RTE"))
    assert str(error.value).endswith("tupe-finetune --task mine writes it again")


def test_all_diverged(tmp_path):
    table = run_protocol(finished_own(tmp_path, diverged="nan"), [RUN], keep_checkpoints=False)
    assert f"| {RUN.name} | diverged | diverged |" in table and "## Test set" not in table
    table = (tmp_path / "runs" / "results.md").read_text()
    assert "| mine | accuracy | 0.0 | diverged |" in table


def test_another_metric_of_a_glue_task(tmp_path):
    """It picks the checkpoints; the average is of those that GLUE reports."""
    experiment = finished_experiment(tmp_path, "RTE")
    task = by_metric(experiment.data.task, "macro_f1")
    assert metric_names(task) == ["accuracy", "macro_f1"]
    path = tmp_path / "runs" / "RTE" / RUN.name / "result.json"
    path.write_text(path.read_text().replace('"accuracy": 0.5', '"accuracy": 0.5, "macro_f1": 0.4'))
    again = replace(experiment, data=replace(experiment.data, task=task))
    table = run_protocol(again, [RUN], keep_checkpoints=False)
    assert "| learning rate | seeds | accuracy | macro F1 |" in table
    table = (tmp_path / "runs" / "results.md").read_text()
    assert "| RTE | 50.0 | 50.0 |" in table and "| average of 1 of 9 tasks | 50.0 |" in table


def test_a_mean_names_its_parts_if_they_are_not_beside_it():
    assert metric_in_words("acc_and_f1", ("f1", "accuracy")) == "mean of both"
    assert metric_in_words("acc_and_f1", ("accuracy", "macro_f1")) == "mean of accuracy and F1"
    assert metric_in_words("mcc", ("accuracy",)) == "Matthews"


def test_tags_that_nobody_knows(tmp_path, caplog):
    """A test set of a tagging task without tags, or with <unk> for each word."""
    experiment = finished_own(tmp_path, "tagging")
    label, data = tmp_path / "mine" / "label", experiment.data
    assert data.has_labels("test")
    content = (label / "test.bin").read_bytes()
    numbers = np.frombuffer(content, dtype="<i4")
    (label / "test.bin").write_bytes(np.where(numbers > 3, 3, numbers).astype("<i4").tobytes())
    assert not data.has_labels("test") and data.can_be_predicted("test")
    assert read_task_data(data.folder).rows == data.rows
    (label / "test.bin").unlink()
    assert not data.can_be_predicted("test")
    found = read_task_data(data.folder)
    assert not [name for name in found.files() if name.startswith("label/test")]


def test_scores_of_classes():
    """a is found in 2 of 3 rows, and 2 of the 4 that are called a are one."""
    targets, predictions = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 0, 0, 1])
    found = class_scores(["a", "b", "c"], predictions, targets)
    assert found[0] == {
        "label": "a", "precision": 0.5, "recall": pytest.approx(2 / 3),
        "f1": pytest.approx(4 / 7), "support": 3,
    }  # fmt: skip
    assert [one["f1"] for one in found[1:]] == [0.0, 0.0]
    labels = np.array([[1, 0], [1, 1], [0, 1]], dtype=bool)
    found = class_scores(["a", "b"], labels, labels[::-1])
    assert [(one["recall"], one["support"]) for one in found] == [(0.5, 2), (0.5, 2)]
    (only,) = class_scores(["a"], labels[:, :1], labels[:, :1])
    assert (only["f1"], only["support"]) == (1.0, 2)


def test_the_most_frequent_classes_are_shown():
    classes = [{"label": str(n), "support": support} for n, support in enumerate((2, 5, 0, 2, 2))]
    assert [one["label"] for one in most_frequent(classes, 3)] == ["0", "1", "3"]
    assert most_frequent(classes) == classes


def test_confusions_are_of_the_classes_that_are_shown():
    task = own_task("classification")
    predicted = Predicted(np.array([0, 1, 1, 2, 2]), np.array([0, 0, 1, 2, 0]))
    counts, labels = pictures.confusions(task, predicted, ["<pad>", "very | good"])
    assert counts.tolist() == [[1, 1], [0, 1]] and labels == ["<pad>", "very | good"]
