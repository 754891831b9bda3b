"""Files of one's own tasks that are read: descriptions, labels, predictions, logs."""

import json

import numpy as np
import pytest

from helpers.glue_data import write_bin
from helpers.own_tasks import own_rows, own_task, write_own
from tupe_fairseq.finetune.answers import flat
from tupe_fairseq.finetune.learning_curve import read_curve
from tupe_fairseq.finetune.prediction_file import Predicted, read_predictions, write_predictions
from tupe_fairseq.finetune.task_data import read_task_data
from tupe_fairseq.labelled.task_description import KINDS

FEW = {"train": 6, "valid": 4, "test": 3}


def make(folder, kind, **options):
    task = own_task(kind)
    return read_task_data(str(write_own(folder / "mine", task, own_rows(task, FEW), **options)))


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_read_as_they_were_written(kind, tmp_path):
    data, path = make(tmp_path, kind), str(tmp_path / "predictions-valid.tsv")
    targets = data.targets("valid")
    # other answers of the same shape
    if kind == "multilabel":
        predictions = ~targets
    elif kind == "regression":
        predictions = targets / 3
    else:
        predictions = [(row + 1) % 3 for row in targets]
        predictions = predictions if kind == "tagging" else np.array(predictions)
    write_predictions(path, data, Predicted(predictions, targets))
    found = read_predictions(path, data, "valid")
    for ours, theirs in zip(found, (predictions, targets)):
        np.testing.assert_array_equal(flat(ours), flat(theirs))
    assert (
        [len(row) for row in found.targets] == [len(row) for row in targets]
        if (kind == "tagging")
        else True
    )


def test_labels_are_spelled_as_users_do(tmp_path):
    data, path = make(tmp_path, "classification"), tmp_path / "predictions-valid.tsv"
    found = np.array([0, 1, 2, 0])
    write_predictions(str(path), data, Predicted(found, None))
    assert path.read_text() == "prediction\n<pad>\nso so\nvery | good\n<pad>\n"
    (tmp_path / "many").mkdir()
    data, path = make(tmp_path / "many", "multilabel"), tmp_path / "many" / "predictions-test.tsv"
    write_predictions(str(path), data, Predicted(np.array([[1, 1], [0, 0], [0, 1]], bool), None))
    assert path.read_text() == 'prediction\n["a, b", "c d"]\n[]\n["c d"]\n'


def test_a_label_with_a_tab_stays_in_its_cell(tmp_path):
    task = own_task("classification", labels=("a\tb", "c\nd"))
    rows = {"train": [([[0]], 0), ([[1]], 1)], "valid": [([[0]], 1), ([[1]], 0)], "test": []}
    data = read_task_data(str(write_own(tmp_path / "mine", task, rows)))
    targets, path = data.targets("valid"), str(tmp_path / "predictions-valid.tsv")
    write_predictions(path, data, Predicted(targets[::-1], targets))
    assert read_predictions(path, data, "valid").predictions.tolist() == [0, 1]


@pytest.mark.parametrize(
    "kind, content, reason",
    [
        ("classification", "", "its columns are not prediction, target"),
        ("classification", "prediction\nso so\n", "its columns are not"),
        ("classification", "prediction\ttarget\nso so\n", "its columns are not"),
        ("classification", "prediction\ttarget\nbad\tso so\n", "'bad' is no label of mine"),
        ("classification", "prediction\ttarget\nso so\tso so\n", "it has 1 rows for 4"),
        ("regression", "prediction\ttarget\nnan\t1\n", "a score that is not finite"),
        ("multilabel", 'prediction\ttarget\n"c d"\t[]\n', "is not a list of labels"),
        ("tagging", "prediction\ttarget\n[1]\t[]\n", "is not a list of labels"),
    ],
)
def test_damaged_predictions(kind, content, reason, tmp_path):
    data, path = make(tmp_path, kind), tmp_path / "predictions-valid.tsv"
    path.write_text(content)
    with pytest.raises(ValueError, match=reason) as error:
        read_predictions(str(path), data, "valid")
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"description": None}, "description is missing"),
        ({"kind": "parsing"}, "description is of no task"),
        ({"texts": 3}, "description is of no task"),
        ({"labels": []}, "description is of no task"),
        ({"benchmark": "GLUE"}, "description is of no task"),
        ({"name": "../up"}, "'../up' cannot be the name of a folder of runs"),
        ({"name": "submission"}, "'submission' cannot be the name of a folder of runs"),
        ({"labels": ["so so", "<pad>", "very | good"]}, "dict.txt lists .*, in this order"),
        ({"splits": ["train", "valid"]}, "lists 'test', which is not a split of mine"),
        ({"splits": ["train", "valid", "valid1", "test"]}, "has 0 rows in valid1"),
    ],
)
def test_descriptions(change, message, tmp_path):
    make(tmp_path, "classification")
    path = tmp_path / "mine" / "report.json"
    report = json.loads(path.read_text())
    (report if "description" in change else report["description"]).update(change)
    path.write_text(json.dumps(report))
    with pytest.raises(ValueError, match=message):
        read_task_data(str(tmp_path / "mine"))


def test_a_scale_is_needed(tmp_path):
    make(tmp_path, "regression")
    path = tmp_path / "mine" / "report.json"
    path.write_text(path.read_text().replace("[\n      -1.0,\n      7.0\n    ]", "null"))
    with pytest.raises(ValueError, match="description is of no task"):
        read_task_data(str(tmp_path / "mine"))


def test_tags_for_other_words(tmp_path):
    make(tmp_path, "tagging")
    write_bin(tmp_path / "mine" / "label" / "valid", [[4, 2]] * 4)
    with pytest.raises(ValueError, match="row 1 of valid in .* has . pieces, but 1 tags"):
        read_task_data(str(tmp_path / "mine"))


def line(tag, **numbers):
    return f"2026 | INFO | {tag} | {json.dumps(numbers)}\n"


def test_learning_curve(tmp_path):
    """The second epoch was made again, after an interruption in the third."""
    path = tmp_path / "train.log"
    lines = []
    for epoch, score in ((1, 50.0), (2, 60.0), (3, 70.0), (2, 61.5)):
        lines.append(line("valid", epoch=epoch, valid_loss="1", valid_mcc=str(score)))
        lines.append(line("valid1", epoch=epoch, valid1_loss="1", valid1_mcc="1"))
        if epoch != 3:
            lines.append(line("train", epoch=epoch, train_loss=str(score / 100)))
    path.write_text("".join(lines))
    assert read_curve(str(path), "mcc") == [
        {"epoch": 1, "score": 50.0, "loss": 0.5},
        {"epoch": 2, "score": 61.5, "loss": 0.615},
    ]
    assert read_curve(str(path), "accuracy") == read_curve(str(tmp_path / "none"), "mcc") == []
