"""Code in a checkpoint does not run, through whichever door the file comes in."""

import copy

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models.roberta import RobertaModel

from helpers import cli
from helpers.crafted import Touch, archive, pickle_of
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.inference.predict import predict

LAST = "checkpoint_last.pt"


@pytest.fixture
def evil(pretrained, tmp_path):
    """A checkpoint with one thing more in it, and the folder that this makes."""
    mark = tmp_path / "executed"
    state = torch.load(pretrained / LAST, weights_only=True)
    state["extra_state"]["val_loss"] = Touch(mark)
    torch.save(state, tmp_path / "evil.pt")
    (tmp_path / "dict.txt").write_text((pretrained / "dict.txt").read_text())
    return tmp_path / "evil.pt", mark


def test_the_trap_works(evil):
    torch.load(evil[0], weights_only=False)
    assert evil[1].exists()


DOORS = {
    "ours": lambda path, data, out: TupeRobertaModel.from_pretrained(str(path.parent), path.name),
    "stock": lambda path, data, out: RobertaModel.from_pretrained(
        str(path.parent), path.name, user_dir=cli.USER_DIR, bpe=None
    ),
    "predict": lambda path, data, out: predict(str(path), str(data), "valid"),
    "restore": lambda path, data, out: cli.pretrain(data, out, "--restore-file", path),
    "finetune": lambda path, data, out: cli.pretrain(data, out, "--finetune-from-model", path),
    "masked_lm": lambda path, data, out: cli.pretrain(
        data, out, "--finetune-from-model", path, "--task", "masked_lm"
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_code_does_not_run(door, evil, data, tmp_path):
    path, mark = evil
    with pytest.raises(Exception, match="mkdir"):
        DOORS[door](path, data, tmp_path / "out")
    assert not mark.exists()


OPTIONS = {
    "a module": {"arch": "tupe_roberta_tiny; import os"},
    "a list to evaluate": {"encoder_layers": "[(8, 3)] * print()"},
    "a task": {"task": "translation"},
    "a size": {"max_positions": 2**80},
    "more layers than tensors": {"encoder_layers": 10**6},
    "another width": {"encoder_embed_dim": 64},
    "no number": {"dropout": float("nan")},
}


@pytest.mark.parametrize("what", OPTIONS)
def test_options_that_are_refused(what, pretrained, tmp_path):
    state = torch.load(pretrained / LAST, weights_only=True)
    state["cfg"]["model"] = copy.copy(state["cfg"]["model"])
    vars(state["cfg"]["model"]).update(OPTIONS[what])
    torch.save(state, tmp_path / "model.pt")
    (tmp_path / "dict.txt").write_text((pretrained / "dict.txt").read_text())
    with pytest.raises(CheckpointError, match="model.pt"):
        TupeRobertaModel.from_pretrained(str(tmp_path))


def test_weights_that_are_not_finite(pretrained, tmp_path):
    state = torch.load(pretrained / LAST, weights_only=True)
    state["model"]["encoder.lm_head.bias"][0] = float("nan")
    torch.save(state, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="encoder.lm_head.bias holds NaN or infinity"):
        TupeRobertaModel.from_pretrained(str(tmp_path))


# ---- What fairseq itself may read ---------------------------------------------------------------


@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_scores_of_numpy_are_read(module, tmp_path):
    """As a metric of scipy's or scikit-learn's is stored, by numpy 1 or 2."""
    kinds = (np.float64(0.25), np.float32(2.5), np.float16(-0.5), np.int64(-7), np.int32(5))
    pickled = pickle_of({"best": [*kinds, np.bool_(True)]})
    for written in (b"numpy.core.multiarray", b"numpy._core.multiarray"):
        pickled = pickled.replace(b"c" + written + b"\n", b"c" + module.encode() + b"\n")
    archive(tmp_path / "a.pt", pickled)
    found = torch.load(tmp_path / "a.pt", weights_only=True)["best"]
    assert found == [0.25, 2.5, -0.5, -7, 5, True]
    assert {type(value) for value in found} == {float, int, bool}


def test_a_training_resumes_from_numpy_scores(data, pretrained, tmp_path):
    state = torch.load(pretrained / "checkpoint_1_5.pt", weights_only=True)
    state["extra_state"].update(best=np.float64(0.5), val_loss=np.float64(0.5))
    torch.save(state, tmp_path / LAST)
    assert len(cli.losses(cli.pretrain(data, tmp_path, "--rel-pos"))) == 5
    cli.assert_same_weights(tmp_path / LAST, pretrained / LAST)
    extra = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / LAST))["extra_state"]
    assert extra["best"] == 0.5


def test_no_class_of_numpy_is_allowed():
    """A real dtype takes its state from the file, flags by which it reads other memory, too."""
    allowed = torch.serialization.get_safe_globals()
    kinds = [entry[0] if isinstance(entry, tuple) else entry for entry in allowed]
    assert {kind.__module__.partition(".")[0] for kind in kinds} <= {
        "argparse", "tupe_fairseq", "torch",
    }  # fmt: skip
    names = {entry[1] for entry in allowed if isinstance(entry, tuple)}
    assert {name for name in names if "numpy" in name} == {
        "numpy.dtype", "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar",
    }  # fmt: skip
