"""What a run is told of the file that it loads."""

import argparse

import pytest
import torch

from tupe_fairseq.plugin.model.watch import RunWatch


@pytest.mark.parametrize(
    "version, harm",
    [
        ("1.13.1+cu117", "run code"), ("2.5.1", "run code"), ("2.6.0", "corrupt memory"),
        ("2.9.1", "corrupt memory"), ("2.10.0", None), ("3.0", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("flag", ["restore_file", "finetune_from_model"])
def test_a_torch_in_which_a_file_can_do_harm_is_named(flag, version, harm, caplog, monkeypatch):
    monkeypatch.setattr(torch, "__version__", version)
    for _ in range(2):  # once, however many models are built
        RunWatch(argparse.Namespace(**{flag: "theirs.pt"}))
    name = f"--{flag.replace('_', '-')}"
    said = f"{name} theirs.pt is read by torch {version}, in which a crafted file can {harm}"
    assert caplog.text.count(said) == (harm is not None)
    assert bool(caplog.records) == (harm is not None)


def test_a_run_that_loads_its_own_file_alone_is_not_warned(caplog, monkeypatch):
    monkeypatch.setattr(torch, "__version__", "1.13.1")
    RunWatch(argparse.Namespace(restore_file="checkpoint_last.pt", finetune_from_model=None))
    assert not caplog.text
