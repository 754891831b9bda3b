"""The comparison of a folder with its checkpoint, with a stand-in for the folder's process."""

import os
import stat
import sys

import pytest
import torch

from tupe_fairseq.export import parity
from tupe_fairseq.export.folder_process import FolderError, FolderProcess
from tupe_fairseq.export.parity import ParityError, Reference, measure

PAD, EOS, LONGEST = 1, 2, 9
KIND = "AutoModelForMaskedLM"


def encode(*texts):
    """The lengths of the words, as ids."""
    parts = [[*(3 + len(word) for word in text.split()), EOS] for text in texts]
    return [0, *parts[0], *(token for part in parts[1:] for token in [EOS, *part])]


def logits(tokens):
    return torch.stack([tokens.float(), -tokens.float()], dim=2)


REFERENCE = Reference(encode, {KIND: logits}, PAD, EOS, LONGEST)


class StandIn:
    """Answers as a folder's process does, wrong where it is told to."""

    versions = {"transformers": "4", "torch": "2", "python": "3"}
    change_ids = staticmethod(lambda ids: ids)
    change_logits = staticmethod(lambda logits, tokens: logits)

    def __init__(self, folder, python, trust):
        self.batches = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def load(self, kind):
        assert kind == KIND

    def encode(self, texts, pairs=None):
        given = zip(texts) if pairs is None else zip(texts, pairs)
        return [self.change_ids(encode(*pair)) for pair in given]

    def logits(self, tokens, pad):
        assert tokens.size(1) <= LONGEST and len(tokens) <= 16
        return self.change_logits(logits(tokens), tokens)


TEXTS = ["a bb ccc", "dddd", "a " * 20, *["e f"] * 20]


@pytest.fixture
def compare(monkeypatch):
    def run(**changes):
        kind = type("Changed", (StandIn,), {k: staticmethod(v) for k, v in changes.items()})
        monkeypatch.setattr(parity, "FolderProcess", kind)
        return measure("folder", REFERENCE, TEXTS, "python", True)

    return run


def test_equal(compare):
    found = compare()
    assert found.differences == {KIND: 0} and found.sentences == len(TEXTS)
    assert found.longest == LONGEST and found.tokens == 5 + 3 + LONGEST + 20 * 4


def test_what_is_at_padding_does_not_count(compare):
    def change(logits, tokens):
        return logits + 7.0 * tokens.eq(PAD).unsqueeze(2)

    assert compare(change_logits=change).differences == {KIND: 0}


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"change_logits": lambda x, tokens: x + 2e-4}, "differ from the checkpoint's by 2.0e-04"),
        ({"change_logits": lambda x, tokens: x * float("nan")}, "differ from .* by nan"),
        ({"change_logits": lambda x, tokens: x[:, :, :1]}, r"shape \[\d+, \d+, 1\]"),
        ({"change_ids": lambda ids: ids[:-1]}, r"text 1 has the ids \[\], not \[2\], from token 4"),
        ({"change_ids": lambda ids: [0, 99, *ids[2:]]}, r"ids \[99, 5, 6\], not \[4, 5, 6\], from"),
        (
            {"change_ids": lambda ids: ids if ids.count(EOS) < 3 else [0]},
            "pair that begins with text 1 has",
        ),
    ],
)
def test_unequal(change, reason, compare):
    with pytest.raises(ParityError, match=reason):
        compare(**change)


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("exit 3", "ended with exit code 3: nothing was said"),
        ("echo 'no such library' >&2; exit 1", "exit code 1: no such library"),
        ("echo nonsense; exit 1", "exit code 1"),
        (f"exec {sys.executable} -S \"$@\"", "No module named 'torch'.*give --python"),
    ],
)  # fmt: skip
def test_a_python_without_transformers(text, reason, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(FolderError, match=reason):
        with FolderProcess(str(tmp_path), script(tmp_path / "python", text), True):
            raise AssertionError


def test_a_python_that_is_not_there(tmp_path):
    with pytest.raises(FolderError, match="--python .*none cannot be started: No such file"):
        with FolderProcess(str(tmp_path), os.path.join(tmp_path, "none"), True):
            raise AssertionError
