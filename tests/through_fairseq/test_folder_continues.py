"""A model leaves fairseq as a folder, and comes back to be trained on."""

import argparse
import json

import pytest
import torch
from safetensors.torch import save_file

from helpers.running import call_program
from helpers.training import losses, pretrain, weights
from tupe_fairseq.checkpoint.contents import symbols_of, vocabulary_version
from tupe_fairseq.commands import convert
from tupe_fairseq.export.folder_config import to_config
from tupe_fairseq.export.folder_tensors import to_folder

# a new start, but with the weights; no randomness, so that equal weights learn the same
AGAIN = [
    "--max-update", 2, "--dropout", 0, "--attention-dropout", 0, "--rel-pos",
    "--reset-optimizer", "--reset-dataloader", "--reset-lr-scheduler", "--reset-meters",
]  # fmt: skip


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    pretrain(data, folder, "--max-update", 1, "--rel-pos")
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def back(trained, data, tmp_path_factory):
    """What tupe-convert makes of the folder."""
    folder = tmp_path_factory.mktemp("model")
    state = torch.load(trained, map_location="cpu")
    symbols = symbols_of((data / "dict.txt").read_text().splitlines())
    config = to_config(state["cfg"]["model"], symbols, int(vocabulary_version(symbols)))
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "dict.txt").write_text((data / "dict.txt").read_text())
    save_file(to_folder(state["model"]), folder / "model.safetensors")
    out = folder / "back"
    words = ["--checkpoint", folder, "--output-dir", out]
    code, text = call_program(convert.main, words)
    assert code == 0, text
    return out


def test_every_weight_is_the_same(trained, back):
    found, expected = weights(back / "model.pt"), weights(trained)
    assert set(found) == set(expected)
    assert all(found[name].equal(expected[name]) for name in expected)
    options = torch.load(back / "model.pt")["args"]
    assert isinstance(options, argparse.Namespace) and options.rel_pos is True


def test_it_learns_on_as_the_original(trained, back, data, tmp_path):
    expected = pretrain(data, tmp_path / "a", *AGAIN, "--restore-file", trained)
    found = pretrain(data, tmp_path / "b", *AGAIN, "--restore-file", back / "model.pt")
    assert "newly initialized: none" in found.stdout and len(losses(found)) == 2
    assert losses(found) == losses(expected)
