"""Any bytes in place of a checkpoint: refused by name, or harmless values; and nothing else."""

import argparse
import collections
import os

import pytest
import torch

from helpers.crafted import a_global, a_tensor, archive, legacy, number, text
from helpers.drawn import drawn
from helpers.drawn import strategies as st
from tupe_fairseq.checkpoint.restricted_load import CheckpointError, restricted_load

# what one pickle after the other is made of: instructions, and what would do harm
_PARTS = [
    *(bytes([code]) for code in b".(N)]}0129abdeilopqrstu"),
    *(bytes([code]) for code in b"\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93"),
    *(a_global(module, name) for module, name in (
        ("os", "mkdir"), ("builtins", "eval"), ("argparse", "Namespace"), ("torch", "Size"),
        ("collections", "OrderedDict"), ("torch._utils", "_rebuild_tensor_v2"),
        ("numpy", "dtype"), ("_codecs", "encode"), ("torch", "FloatStorage"))),
    *map(text, ("CODE-RAN", "model", "latin1", "__class__", "storage", "cpu", "0")),
    *map(number, (0, 1, -1, 2**31, 2**63)), a_tensor(1, [1], [1]), b"h\x00", b"q\x00", b"\x80\x02",
]  # fmt: skip
PICKLES = st.lists(st.sampled_from(_PARTS), max_size=25).map(b"".join)
HARMLESS = (
    dict, list, tuple, str, int, float, bool, type(None), bytes, torch.Tensor, torch.dtype,
    argparse.Namespace, collections.OrderedDict,
)  # fmt: skip


def loaded(path):
    """What a file gives, or nothing if it is refused as it should be."""
    try:
        return restricted_load(str(path))
    except CheckpointError as error:
        assert str(path) in str(error)
        return {}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The current folder, in which nothing may appear."""
    made, before = tmp_path_factory.mktemp("drawn"), os.getcwd()
    os.chdir(made)
    yield made
    os.chdir(before)


@pytest.mark.parametrize("form", [archive, legacy], ids=["zip", "old format"])
@drawn(100, instructions=PICKLES)
def test_any_instructions(form, folder, instructions):
    storages = {"0": bytes(4)} if form is archive else ["0"]
    path = form(folder / "a.pt", b"\x80\x02}" + text("model") + instructions + b"s.", storages)
    value = loaded(path).get("model")
    assert isinstance(value, HARMLESS) or type(value).__module__.startswith("tupe_fairseq.")
    assert os.listdir(folder) == ["a.pt"]
    path.unlink()


@drawn(
    60, content=st.binary(max_size=200), start=st.sampled_from([b"", b"PK\x03\x04", b"\x80\x02"])
)
def test_any_bytes(folder, content, start):
    path = folder / "b.pt"
    path.write_bytes(start + content)
    assert type(loaded(path)) is dict and os.listdir(folder) == ["b.pt"]
    path.unlink()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
