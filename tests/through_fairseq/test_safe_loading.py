"""A checkpoint that tries to execute code is refused, and the code does not run."""

import argparse
import os
import pickle

import pytest
import torch
from fairseq.models.roberta import RobertaModel

from helpers.running import USER_DIR
from helpers.training import pretrain

on_safe_torch = pytest.mark.skipif(
    not hasattr(torch.serialization, "add_safe_globals"),
    reason=f"fairseq itself unpickles freely on torch {torch.__version__} (README, Checkpoints)",
)


class Evil:
    """Touches a file when unpickled."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


@pytest.fixture(scope="module")
def checkpoint(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    pretrain(data, folder, "--max-update", 1)
    return folder / "checkpoint_last.pt"


@pytest.fixture
def evil(checkpoint, tmp_path):
    """(file, marker): a real checkpoint with one thing more in it."""
    marker = tmp_path / "executed"
    state = torch.load(checkpoint, map_location="cpu")
    state["extra_state"]["val_loss"] = Evil(marker)
    torch.save(state, tmp_path / "evil.pt")
    return tmp_path / "evil.pt", marker


def test_the_trap_works(evil):
    path, marker = evil
    kwargs = {"weights_only": False} if hasattr(torch.serialization, "add_safe_globals") else {}
    torch.load(path, **kwargs)
    assert marker.exists()


@on_safe_torch
def test_from_pretrained_refuses(evil, data):
    path, marker = evil
    with pytest.raises(pickle.UnpicklingError, match="system"):
        RobertaModel.from_pretrained(
            str(path.parent), "evil.pt", str(data), user_dir=USER_DIR, bpe=None
        )
    assert not marker.exists()


@on_safe_torch
def test_fairseq_train_refuses(evil, data, tmp_path):
    path, marker = evil
    process = pretrain(data, tmp_path / "out", "--restore-file", path, check=False)
    assert process.returncode and "Weights only load failed" in process.stdout
    assert not marker.exists()


def test_tupe_convert_refuses(evil, data, run, tmp_path):
    path, marker = evil
    process = run("tupe-convert", "--checkpoint", path, "--dict", data / "dict.txt",
                  "--output-dir", tmp_path / "out", check=False)  # fmt: skip
    assert process.returncode == 2
    assert process.stdout.splitlines()[-1].endswith(
        "evil.pt is refused: it asks for posix.system, which no checkpoint needs"
    )
    assert not marker.exists()


@on_safe_torch
def test_protection_is_on_and_only_namespace_is_allowed(checkpoint):
    state = torch.load(checkpoint, weights_only=True)
    assert type(state["cfg"]["model"]).__name__ == "Namespace"
    allowed = torch.serialization.get_safe_globals()
    assert {g for g in allowed if g.__module__.split(".")[0] != "torch"} == {argparse.Namespace}
