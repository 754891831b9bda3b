"""A checkpoint that tries to execute code is refused, and the code does not run."""

import os
import pickle

import numpy as np
import pytest
import torch
from fairseq.models.roberta import RobertaModel

from helpers.crafted import archive, pickle_of
from helpers.running import USER_DIR
from helpers.training import pretrain
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.checkpoint.restricted_load import CheckpointError
from tupe_fairseq.plugin.on_import import torch_is_at_least

on_safe_torch = pytest.mark.skipif(
    not hasattr(torch.serialization, "add_safe_globals"),
    reason=f"fairseq itself unpickles freely on torch {torch.__version__} (README)",
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


def test_our_own_from_pretrained_refuses_on_every_torch(evil, data):
    path, marker = evil
    with pytest.raises(CheckpointError, match="system"):
        TupeRobertaModel.from_pretrained(str(path.parent), "evil.pt", str(data), bpe=None)
    assert not marker.exists()


@pytest.mark.parametrize("flag", ["--restore-file", "--finetune-from-model"])
def test_fairseq_train_refuses_on_every_torch(flag, evil, data, tmp_path):
    path, marker = evil
    process = pretrain(data, tmp_path / "out", flag, path, check=False)
    said = "Weights only load failed" if torch_is_at_least(2, 10) else "asks for posix.system"
    assert process.returncode and said in process.stdout
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
def test_protection_is_on_and_little_is_allowed(checkpoint):
    state = torch.load(checkpoint, weights_only=True)
    assert type(state["cfg"]["model"]).__name__ == "Namespace"
    allowed = torch.serialization.get_safe_globals()
    names = {g[1] if isinstance(g, tuple) else f"{g.__module__}.{g.__name__}" for g in allowed}
    others = {name for name in names if not name.startswith(("torch.", "numpy.dtype"))}
    assert others == {
        "argparse.Namespace", "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar",
    }  # fmt: skip


@on_safe_torch
@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_scores_of_numpys_kind_are_read(module, tmp_path):
    """As a regression's metric is stored, by numpy 1 or 2."""
    pickled = pickle_of({"best": np.float64(0.25), "val_loss": np.float32(2)})
    for written in (b"numpy.core.multiarray", b"numpy._core.multiarray"):
        pickled = pickled.replace(b"c" + written + b"\n", b"c" + module.encode() + b"\n")
    archive(tmp_path / "a.pt", pickled)
    found = torch.load(tmp_path / "a.pt", weights_only=True)
    assert found == {"best": 0.25, "val_loss": 2.0}


def test_a_regression_by_hand_is_resumed_and_loaded(checkpoint, data, tmp_path):
    """scipy's correlation, the metric by which the best checkpoint is chosen, is a numpy number."""
    state = torch.load(checkpoint, map_location="cpu")
    state["extra_state"].update(best=np.float64(0.5), val_loss=np.float64(0.5))
    torch.save(state, tmp_path / "checkpoint_last.pt")
    process = pretrain(data, tmp_path, "--max-update", 2)
    assert "Loaded checkpoint" in process.stdout and "(epoch 1 @ 1 updates)" in process.stdout
    hub = TupeRobertaModel.from_pretrained(str(tmp_path), "checkpoint_last.pt", str(data), bpe=None)
    assert hub.extract_features(torch.tensor([[0, 5, 2]])).isfinite().all()
