"""A checkpoint that contains code, given to every command that takes one: no code runs."""

import pytest
import torch

from helpers.crafted import Touch
from helpers.glue_data import random_rows, write_task
from helpers.glue_files import write_pretrain_dir
from helpers.models import write_fine_tuned
from helpers.running import call_program

MARK = "code-ran"
#: a call of each command; MODEL is the checkpoint
COMMANDS = {
    "convert": "MODEL --dictionary dict.txt --output-dir out",
    "convert --untie": "--untie MODEL --dictionary dict.txt --output-dir out",
    "encode": "MODEL in.tsv --output-file out/out.npy --cpu",
    "export": "MODEL --output-dir out",
    "extend": "MODEL --max-positions 64 --method tile --output-dir out",
    "finetune": "MODEL --data task --output-dir out --cpu",
    "plot": "MODEL --output-dir out",
    "predict": "MODEL in.tsv --output-file out/out.tsv --cpu",
    "score": "MODEL --input dict.txt --output-file out/out.tsv --cpu",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The state of a fine-tuned model, and a folder with all that commands need beside it."""
    place = tmp_path_factory.mktemp("hostile")
    checkpoint = write_fine_tuned(place / "run")
    write_task(place / "run" / "task", "CoLA", random_rows("CoLA"))
    (place / "run" / "in.tsv").write_text("text\nA cat.\n")
    return torch.load(checkpoint, weights_only=False), place / "run"


@pytest.mark.parametrize("command", COMMANDS)
def test_no_code_of_a_checkpoint_runs(command, folder, monkeypatch):
    """checkpoint/test_checkpoint.py has code in every place and form of a file."""
    state, place = folder
    monkeypatch.chdir(place)
    torch.save({**state, "extra_state": Touch(MARK)}, "model.pt")
    words = COMMANDS[command].replace("MODEL", "model.pt").split()
    code, text = call_program(command.split()[0], words)
    assert not (place / MARK).exists() and not (place / "out").exists()
    (line,) = [line for line in text.splitlines() if "model.pt" in line and "reading" not in line]
    assert code == 2 and "model.pt is " in line and len(line) < 500
    torch.load("model.pt", weights_only=False)
    (place / MARK).rmdir()  # torch.load did run the code


def test_folders_whose_vocabulary_alone_is_used(tmp_path, monkeypatch):
    """--vocabulary never opens the checkpoint beside the vocabulary."""
    monkeypatch.chdir(tmp_path)
    torch.save(Touch(MARK), write_pretrain_dir(tmp_path / "there") / "model.pt")
    (tmp_path / "text").write_text("A cat.\n\nNo dog.\n")
    (tmp_path / "valid").write_text("Nobody.\n")
    text = ["--input", "text", "--valid-input", "valid"]
    (tmp_path / "rows.csv").write_text("text,label\nA cat.,a\nNo dog.,b\n")
    rows = ["--kind", "classification", "--train", "rows.csv", "--valid", "rows.csv"]
    for command, words in (
        ("prepare-pretrain", [*text, "--vocabulary", "there"]),
        ("prepare-task", [*rows, "--text", "text", "--label", "label", "--vocabulary", "there"]),
    ):
        code, said = call_program(command, [*words, "--output-dir", f"out-{command}"])
        assert code == 0, said
    assert not (tmp_path / MARK).exists()
