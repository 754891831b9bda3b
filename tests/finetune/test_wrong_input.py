"""Each wrong use of tupe-finetune ends with exit code 2 and one line, before any work."""

import pytest

from helpers.glue_data import DICTIONARY, write_bin, write_checkpoint, write_data
from helpers.own_tasks import own_rows, own_task, write_own
from helpers.running import call_program


@pytest.fixture
def files(tmp_path):
    write_data(tmp_path / "CoLA", "CoLA")
    write_checkpoint(tmp_path / "model.pt")
    return tmp_path


def refused(files, *flags, made=False):
    """The last line, which says why."""
    words = [
        "--data", files / "CoLA", "--checkpoint", files / "model.pt", "--output-dir",
        files / "runs", *flags,
    ]  # fmt: skip
    code, text = call_program("finetune", words)
    assert code == 2, text
    assert (files / "runs" / "CoLA").exists() == made
    line = text.splitlines()[-1]
    assert line.startswith("tupe-finetune: error: ")
    return line


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--task", "RTE"], "is for the task CoLA, but --task is RTE"),
        (["--metric", "pearson"], "--metric pearson: 'pearson' is not for classification"),
        (["--dropout", 1], "argument --dropout: '1' is not a number of at least 0 and below 1"),
        (["--gpus", "0", "--cpu"], "--gpus needs a GPU; drop it, or drop --cpu"),
        (["--gpus", "1000"], "--gpus 1000: torch finds"),
        (["--output-dir", "/a:b"], "argument --output-dir: /a:b contains ':'"),
    ],
    ids=lambda value: "-".join(str(v).strip("-/") for v in value) * isinstance(value, list),
)
def test_flags(flags, message, files):
    assert message in refused(files, *flags)


def test_vocabulary_of_the_same_size(files):
    write_checkpoint(files / "model.pt", words=DICTIONARY[::-1])
    assert "has as many tokens as that of --data, but other ones" in refused(files)


def test_changed_dictionary(files):
    with open(files / "CoLA" / "input0" / "dict.txt", "a", encoding="utf-8") as file:
        file.write("more 1\n")
    assert "input0/dict.txt has changed; prepare the task again" in refused(files)


def test_missing_file(files):
    (files / "CoLA" / "label" / "valid.idx").unlink()
    assert "label/valid.idx is missing; prepare the task again" in refused(files)


def test_classes_in_another_order(files):
    (files / "CoLA" / "label" / "dict.txt").write_text("1 1\n0 1\n")
    assert "lists 1, 0, not the labels of report.json in their order" in refused(files)


def test_data_of_another_program(files):
    (files / "CoLA" / "report.json").write_text('{"task": "CoLA"}')
    assert "is not of tupe-prepare-glue or tupe-prepare-task" in refused(files)


def test_pooling_of_tags(files):
    task = own_task("tagging")
    write_own(files / "tags", task, own_rows(task))
    message = refused(files, "--pooling", "mean", "--data", files / "tags")
    assert "--pooling mean is for one label a text; mine has tags" in message


def test_folder_of_something_else(files):
    (files / "runs" / "CoLA").mkdir(parents=True)
    (files / "runs" / "CoLA" / "mine").touch()
    assert "contains other files" in refused(files, "--cpu", made=True)


def test_changed_data(files):
    """Finished runs of other data are not mixed with new ones."""
    code, text = call_program(
        "finetune",
        ["--data", files / "CoLA", "--checkpoint", files / "model.pt", "--output-dir",
         files / "runs", "--cpu", "--lrs", "1e30", "--seeds", 1, "--epochs", 2, "--no-pretraining"],
    )  # fmt: skip
    assert code == 0, text
    write_bin(files / "CoLA" / "label" / "train", [[5, 2]] * 10)
    message = refused(files, "--cpu", "--epochs", 2, "--no-pretraining", made=True)
    assert "was made with other settings: label/train.bin was" in message
