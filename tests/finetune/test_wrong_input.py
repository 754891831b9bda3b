"""Each wrong use ends with exit code 2 and the reason, before any work."""

import pytest
import torch

from helpers.glue_data import DICTIONARY, MODEL, write_bin, write_checkpoint, write_data
from helpers.own_tasks import own_rows, own_task, write_own
from tupe_fairseq.commands.finetune import main
from tupe_fairseq.files.atomic import read_json, write_json
from tupe_fairseq.files.lock import locked


@pytest.fixture
def files(tmp_path):
    write_data(tmp_path / "CoLA", "CoLA")
    write_checkpoint(tmp_path / "model.pt")
    return tmp_path


def arguments(files, *flags):
    return [
        "--task", "CoLA", "--data", str(files / "CoLA"), "--checkpoint", str(files / "model.pt"),
        "--output-dir", str(files / "runs"), "--cpu", *map(str, flags),
    ]  # fmt: skip


def refused(files, capsys, *flags):
    with pytest.raises(SystemExit) as stop:
        main(arguments(files, *flags))
    assert stop.value.code == 2
    assert not (files / "runs" / "CoLA").exists()
    return capsys.readouterr().err


def test_the_same_without_an_error(files, capsys):
    main(arguments(files, "--dry-run"))
    commands = capsys.readouterr().out
    assert commands.count("fairseq-train ") == 4 * 5
    assert "--max-epoch 10" in commands and not (files / "runs").exists()


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--task", "cola"], "is for the task CoLA, but --task is cola"),
        (["--task", "RTE"], "is for the task CoLA, but --task is RTE"),
        (["--lrs", "2e-5,a"], "'a' is not a number above 0"),
        (["--seeds", "1,1"], "1 is listed twice"),
        (["--epochs", 0], "--epochs (0) must be at least 1"),
        (["--batch-size", -1], "--batch-size (-1) must be at least 1"),
        (["--update-freq", 0], "--update-freq (0) must be at least 1"),
        (["--patience", 0], "--patience (0) must be at least 1"),
        (
            ["--metric", "pearson"],
            "--metric pearson: 'pearson' is not for classification, which has",
        ),
        (["--dropout", 1], "--dropout (1.0) must be at least 0 and below 1"),
        (["--weight-decay", -1], "--weight-decay (-1.0) must be at least 0"),
        (["--weight-decay", "nan"], "--weight-decay (nan) must be at least 0"),
        (["--fp16"], "--fp16 needs a GPU; drop it, or drop --cpu"),
        (["--checkpoint", "/nowhere.pt"], "--checkpoint /nowhere.pt does not exist"),
        (["--data", "/nowhere"], "--data /nowhere has no report.json"),
        (["--output-dir", "/a:b"], "--output-dir /a:b contains ':'"),
        (["--gpus", 1], "not allowed with argument --cpu"),
    ],
    ids=lambda value: (
        "-".join(str(v).strip("-/") for v in value) if isinstance(value, list) else ""
    ),
)
def test_flags(flags, message, files, capsys):
    assert message in refused(files, capsys, *flags)


@pytest.mark.parametrize(
    "gpus, message",
    [
        (["--gpus", "0"], "--gpus (0) must be at least 1; to train on the CPU, pass --cpu"),
        (["--gpus", "1000"], "--gpus (1000) exceeds the"),
    ],
)
def test_gpus(gpus, message, files, capsys):
    flags = [word for word in arguments(files) if word != "--cpu"]
    with pytest.raises(SystemExit) as stop:
        main([*flags, *gpus])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(files, capsys):
    with pytest.raises(SystemExit):
        main([word for word in arguments(files) if word != "--cpu"])
    assert (
        "--gpus (1) exceeds the 0 that torch finds on this machine; pass --cpu"
        in capsys.readouterr().err
    )


def test_checkpoint_of_stock_roberta(files, capsys):
    names = ("rel_pos", "tie_cls", "rel_pos_buckets", "max_rel_pos")
    options = {key: value for key, value in MODEL.items() if key not in names}
    write_checkpoint(files / "model.pt", {**options, "arch": "roberta_base"})
    message = refused(files, capsys)
    assert "is a checkpoint of roberta_base, not of tupe_roberta; convert" in message


@pytest.mark.parametrize("content", [b"", b"x" * 900], ids=["empty", "junk"])
def test_unreadable_checkpoint(content, files, capsys):
    (files / "model.pt").write_bytes(content)
    assert "is truncated, damaged or not a checkpoint" in refused(files, capsys)


def test_checkpoint_without_options(files, capsys):
    torch.save({"model": {}}, files / "model.pt")
    assert "holds no options, so it is not a fairseq checkpoint" in refused(files, capsys)


def test_vocabulary_of_another_size(files, capsys):
    write_checkpoint(files / "model.pt", words=[*DICTIONARY, "more 1"])
    message = refused(files, capsys)
    assert "has 13 rows, but the dictionary of --data" in message and "12 symbols" in message


def test_vocabulary_of_the_same_size(files, capsys):
    write_checkpoint(files / "model.pt", words=DICTIONARY[::-1])
    assert "was trained with a different vocabulary" in refused(files, capsys)


def test_changed_dictionary(files, capsys):
    with open(files / "CoLA" / "input0" / "dict.txt", "a", encoding="utf-8") as file:
        file.write("more 1\n")
    assert "dict.txt has changed since tupe-prepare-glue" in refused(files, capsys)


def test_lost_rows(files, capsys):
    write_bin(files / "CoLA" / "input0" / "train", [[4, 2]])
    assert "has 1 sentences, but report.json says 10" in refused(files, capsys)


@pytest.mark.parametrize("split", ["train", "valid"])
def test_empty_split(split, files, capsys):
    report = read_json(str(files / "CoLA" / "report.json"))
    del report["splits"][split]
    write_json(str(files / "CoLA" / "report.json"), report)
    assert f"has 0 rows in {split}; fine-tuning needs two or more" in refused(files, capsys)


def test_classes_in_another_order(files, capsys):
    (files / "CoLA" / "label" / "dict.txt").write_text("1 1\n0 1\n")
    message = refused(files, capsys)
    assert "lists 1, 0; the classes of CoLA are 0, 1, in this order" in message


def test_pooling_of_tags(files, capsys):
    task = own_task("tagging")
    write_own(files / "tags", task, own_rows(task))
    message = refused(files, capsys, *"--task mine --pooling mean --data".split(), files / "tags")
    assert "--pooling mean makes one vector of a text, and mine has a tag for each word" in message


def test_unfinished_data(files, capsys):
    (files / "CoLA" / "report.json").unlink()
    assert "is not a finished folder of tupe-prepare-glue" in refused(files, capsys)


def test_folder_of_something_else(files, capsys):
    (files / "runs" / "CoLA").mkdir(parents=True)
    (files / "runs" / "CoLA" / "mine").touch()
    with pytest.raises(SystemExit) as stop:
        main(arguments(files))
    assert stop.value.code == 2
    assert "contains other files" in capsys.readouterr().err


def test_folder_in_use(files, capsys):
    (files / "runs" / "CoLA").mkdir(parents=True)
    with locked(str(files / "runs" / "CoLA")), pytest.raises(SystemExit) as stop:
        main(arguments(files))
    assert stop.value.code == 2
    assert f"another process is using {files / 'runs' / 'CoLA'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("report.json", "null", "is damaged, or of another program: its content is missing"),
        ("report.json", "[" * 99_999, "nested too deep; prepare the task again"),
        ("report.json", '{"task": "CoLA"}', "max_positions is missing"),
        ("label/train.bin", "", "label/train.idx is damaged, or not that of"),
        ("label/valid.idx", "", "is not in fairseq's mmap format, or cut short"),
        ("label/dict.txt", "\udcff", "is not a text in UTF-8; prepare the task again"),
        ("test.index", "1\n", "prepare the task again"),
    ],
)
def test_damaged_data(name, content, message, files, capsys):
    (files / "CoLA" / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    error = refused(files, capsys).splitlines()[-1]
    assert error.startswith("tupe-finetune: error: ") and message in error


@pytest.mark.parametrize("content", ["null", "7", '{"settings": {}, "finished": []}', "[" * 99_999])
def test_a_damaged_record_of_settings(content, files, capsys):
    folder = files / "runs" / "CoLA"
    folder.mkdir(parents=True)
    (folder / "steps.json").write_text(content)
    with pytest.raises(SystemExit) as stop:
        main(arguments(files))
    assert stop.value.code == 2
    assert f"tupe-finetune: error: {folder / 'steps.json'} " in capsys.readouterr().err
