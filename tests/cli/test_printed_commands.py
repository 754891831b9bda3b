"""The command that is printed for fresh data: for a GPU where torch has one."""

import pytest
import torch

from tupe_fairseq.cli import printed_commands


@pytest.mark.parametrize("there, found, is_asked", [(0, 0, 0), (1, 0, 1), (1, 1, 1)])
def test_a_gpu(there, found, is_asked, monkeypatch):
    asked = []
    monkeypatch.setattr(printed_commands, "_DEVICES", ("/",) if there else ("/absent",))
    monkeypatch.setattr(printed_commands.shutil, "which", lambda name: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: asked.append(1) or bool(found))
    text = printed_commands.first_training(["data-bin"], 128)
    assert ("--fp16" in text, "--cpu" in text) == (bool(found), not found)
    assert f"--arch tupe_roberta_{'small' if found else 'tiny'} " in text
    assert len(asked) == is_asked
