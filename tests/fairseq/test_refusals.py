"""A training that cannot do what was asked ends with a clear reason; no code in a file runs."""

import argparse
import pickle
import zipfile

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models.roberta import RobertaModel

from helpers.crafted import Touch
from helpers.running import USER_DIR
from helpers.training import (
    MODEL,
    PRETRAINING,
    SIZE,
    WORDS,
    assert_same_weights,
    build,
    losses,
    pretrain,
    train,
    write_text_data,
)
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.checkpoint.checkpoint import allowed_for_fairseq, read

LAST = "checkpoint_last.pt"


def last_line(error):
    """The last line of a traceback."""
    return str(error.value).splitlines()[-1]


def test_another_model(data, pretrained, tmp_path):
    """core/test_encoder.py has all options."""
    for layers in (1, 3):
        flags = ["--encoder-layers", layers, "--restore-file", pretrained / LAST]
        with pytest.raises(ValueError) as error:
            pretrain(data, tmp_path, "--rel-pos", *flags)
        message = f"--encoder-layers is 2 in the checkpoint and {layers}"
        assert message in last_line(error) and str(pretrained / LAST) in last_line(error)


def test_another_vocabulary(pretrained, tmp_path):
    data = write_text_data(tmp_path / "data", words=WORDS[::-1])
    with pytest.raises(ValueError) as error:
        pretrain(data, tmp_path, "--rel-pos", "--finetune-from-model", pretrained / LAST)
    message = "a different vocabulary of the same size, not with dict.txt; use the dict.txt"
    assert message in last_line(error)


def test_two_matrices_for_one(data, tmp_path):
    """Else the model would have the LM head as its word embedding."""
    untie = ["--untie-weights-roberta", "--max-update", 1]
    pretrain(data, tmp_path / "untied", *untie)
    again = ["--finetune-from-model", tmp_path / "untied" / LAST, "--max-update", 1]
    message = "lm_head.weight are two matrices in the checkpoint .* give the .* --untie-weights"
    with pytest.raises(ValueError, match=message):
        pretrain(data, tmp_path / "tied", *again)
    pretrain(data, tmp_path / "same", *again, *untie)
    with pytest.raises(ValueError, match=message):
        options = {"untie_weights_roberta": False}
        TupeRobertaModel.from_pretrained(str(tmp_path / "untied"), LAST, **options)


def test_files_that_are_no_checkpoint_of_ours(data, pretrained, tmp_path):
    whole = (pretrained / LAST).read_bytes()
    torch.save({"a": 1}, tmp_path / "other.pt")
    (tmp_path / "half.pt").write_bytes(whole[: len(whole) // 2])
    flags = ["--arch", "roberta_base", *SIZE, *PRETRAINING, "--task", "masked_lm"]
    train(data, tmp_path, *flags, "--max-update", 1)
    (tmp_path / LAST).rename(tmp_path / "stock.pt")
    restore, finetune, once = "--restore-file", "--finetune-from-model", "--continue-once"
    for flag, name, reason in (
        (restore, "other", "other.pt is damaged or not a checkpoint"),
        (finetune, "half", "half.pt is damaged or not a checkpoint"),
        (restore, "stock", "tupe-convert"),
        (finetune, "absent", "absent.pt is not a file"),
        (once, "absent", "absent.pt is not a file"),
    ):
        with pytest.raises((ValueError, FileNotFoundError)) as error:
            pretrain(data, tmp_path / "out", "--rel-pos", flag, tmp_path / f"{name}.pt")
        assert reason in last_line(error)


FLAGS = {
    "samples too long": (["--tokens-per-sample", 17], "--tokens-per-sample (17) is above --max-p"),
    "fixed": (["--mha-heads-to-keep", 1], "--mha-heads-to-keep (1) does not apply"),
    "pruned": (["--encoder-layers-to-keep", "0,1"], "--encoder-layers-to-keep (0,1) does not ap"),
    "option of others": (["--symmetric-basis"], "'tupe' does not take symmetric_basis"),
    "documents": (
        ["--isolate-documents", "--task", "masked_lm", "--load-checkpoint-heads"],
        "needs --task tupe_masked_lm",
    ),
    "spectral norm": (["--spectral-norm-classification-head"], "head (True) does not apply"),
    "nothing masked": (["--mask-prob", 0], "--mask-prob (0.0) must be above 0 and below 1"),
    "shares": (["--random-token-prob", 0.95], "(0.1) and --random-token-prob (0.95) must be 0 or"),
    "spans": (["--mask-multiple-length", 2], "--mask-multiple-length (2) does not apply to tupe_m"),
    "equal counts": (["--freq-weighted-replacement"], "replacement has no effect: all tokens in"),
    "asynchronous": (["--write-checkpoints-asynchronously"], "needs iopath; pip install iopath"),
    "whole words": (["--mask-whole-words"], "there is no sentencepiece.bpe.model in"),
}


@pytest.mark.parametrize("what", FLAGS)
def test_flags_that_do_not_fit(what, data):
    flags, reason = FLAGS[what]
    with pytest.raises((OSError, ValueError)) as error:
        build(data, *MODEL, *PRETRAINING, *flags)[0].load_dataset("train")
    assert reason in str(error.value)


def test_a_metric_that_is_never_measured(data, tmp_path):
    flags = [flag for flag in PRETRAINING if flag != "--disable-validation"]
    with pytest.raises(ValueError) as error:
        train(data, tmp_path, *MODEL, *flags, "--best-checkpoint-metric", "accuracy")
    assert last_line(error) == "--best-checkpoint-metric accuracy is not measured; give loss, ppl"
    train(data, tmp_path, *MODEL, *flags, "--best-checkpoint-metric", "ppl", "--max-update", 1)


# ---- Code in a checkpoint -----------------------------------------------------------------------


@pytest.fixture
def evil(pretrained, tmp_path):
    """A checkpoint with code in it, and the folder that this code would make."""
    mark = tmp_path / "executed"
    state = torch.load(pretrained / LAST, weights_only=False)
    state["extra_state"]["val_loss"] = Touch(mark)
    torch.save(state, tmp_path / "evil.pt")
    (tmp_path / "dict.txt").write_text((pretrained / "dict.txt").read_text())
    return tmp_path / "evil.pt", mark


DOORS = {
    "ours": lambda path, data, out: TupeRobertaModel.from_pretrained(str(path.parent), path.name),
    "stock": lambda path, data, out: RobertaModel.from_pretrained(
        str(path.parent), path.name, user_dir=USER_DIR, bpe=None
    ),
    "restore": lambda path, data, out: pretrain(data, out, "--restore-file", path),
    "finetune": lambda path, data, out: pretrain(data, out, "--finetune-from-model", path),
}


@pytest.mark.parametrize("door", DOORS)
def test_code_does_not_run(door, evil, data, tmp_path):
    path, mark = evil
    with pytest.raises(Exception, match="mkdir"):
        DOORS[door](path, data, tmp_path / "out")
    assert not mark.exists()
    torch.load(path, weights_only=False)
    assert mark.exists()  # torch.load did run the code


@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_scores_of_numpy_are_read(module, tmp_path):
    """Metrics of scipy and scikit-learn are stored as numpy's numbers, by numpy 1 or 2."""
    kinds = (np.float64(0.25), np.float32(2.5), np.float16(-0.5), np.int64(-7), np.int32(5))
    pickled = pickle.dumps({"best": [*kinds, np.bool_(True)]}, protocol=2)
    for written in (b"numpy.core.multiarray", b"numpy._core.multiarray"):
        pickled = pickled.replace(b"c" + written + b"\n", b"c" + module.encode() + b"\n")
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as file:
        file.writestr("archive/data.pkl", pickled)
        file.writestr("archive/version", "3\n")
    with allowed_for_fairseq():
        found = torch.load(tmp_path / "a.pt", weights_only=True)["best"]
    assert found == [0.25, 2.5, -0.5, -7, 5, True]
    assert {type(value) for value in found} == {float, int, bool}


def test_a_training_resumes_from_numpy_scores(data, pretrained, tmp_path):
    state = torch.load(pretrained / "checkpoint_1_5.pt", weights_only=False)
    state["extra_state"].update(best=np.float64(0.5), val_loss=np.float64(0.5))
    torch.save(state, tmp_path / LAST)
    assert len(losses(pretrain(data, tmp_path, "--rel-pos"))) == 5
    assert_same_weights(tmp_path / LAST, pretrained / LAST)
    extra = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / LAST))["extra_state"]
    assert extra["best"] == 0.5


def test_torch_load_is_as_it_was(pretrained, tmp_path):
    """Before and after loading by fairseq and by us, and for types that the user has allowed."""
    path, counts = tmp_path / "x.pt", np.arange(6, dtype=np.int64).reshape(2, 3)
    for value in (counts, np.float64(3), argparse.Namespace(a=3)):
        torch.save({"x": value}, path)
        with pytest.raises(pickle.UnpicklingError, match="GLOBAL"):
            torch.load(path, weights_only=True)
    torch.save({"x": counts, "y": np.float64(3)}, path)
    state = torch.load(pretrained / LAST, weights_only=False)
    state["extra_state"].update(x=counts, y=counts.T)
    torch.save(state, tmp_path / LAST)
    theirs = [np.ndarray, np.dtype, *(type(np.dtype(kind)) for kind in (np.int64, np.float64))]
    theirs += [counts.__reduce__()[0], np.float64(3).__reduce__()[0]]
    with torch.serialization.safe_globals(theirs):
        extra = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / LAST))["extra_state"]
        assert (extra["x"] == counts).all() and (extra["y"] == counts.T).all()
        read(str(pretrained / LAST))
        found = torch.load(path, weights_only=True)
    assert type(found["x"]) is np.ndarray and found["x"].dtype == np.int64 and found["y"] == 3
    state["extra_state"]["x"] = np.uint8(3)
    torch.save(state, path)
    with pytest.raises(ValueError, match="numpy's type 'u1' are not read"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))  # else a wrong value
