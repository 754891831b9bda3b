"""What a run is told of the file that it loads."""

import argparse

import pytest
import torch

from tupe_fairseq.plugin.model.watch import RunWatch


@pytest.mark.parametrize(
    "version, warns",
    [("1.13.1+cu117", True), ("2.6.0", True), ("2.9.1", True), ("2.10.0", False), ("3.0", False)],
)
@pytest.mark.parametrize("flag", ["restore_file", "finetune_from_model"])
def test_a_torch_in_which_a_file_can_do_harm_is_named(flag, version, warns, caplog, monkeypatch):
    monkeypatch.setattr(torch, "__version__", version)
    RunWatch(argparse.Namespace(**{flag: "theirs.pt"}))
    said = f"--{flag.replace('_', '-')} theirs.pt is read by torch {version}"
    assert (said in caplog.text) == warns


def test_a_run_that_loads_its_own_file_alone_is_not_warned(caplog, monkeypatch):
    monkeypatch.setattr(torch, "__version__", "1.13.1")
    RunWatch(argparse.Namespace(restore_file="checkpoint_last.pt", finetune_from_model=None))
    assert not caplog.text
