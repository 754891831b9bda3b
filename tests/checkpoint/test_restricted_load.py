"""The reader of untrusted checkpoints: what it gives, and that nothing else happens."""

import argparse
import collections
import os
import resource
import sys
import zipfile

import numpy as np
import pytest
import torch

from helpers.crafted import (
    Touch,
    a_dict,
    a_global,
    a_tensor,
    archive,
    legacy,
    number,
    pickle_of,
    text,
)
from tupe_fairseq.checkpoint.restricted_load import CheckpointError, restricted_load

NAMESPACE = a_global("argparse", "Namespace")
ORDERED = a_global("collections", "OrderedDict")
STATE = b"}" + text("poisoned") + b"\x88s"
EMPTY = b")"
FORMATS = pytest.mark.parametrize("form", [archive, legacy])


def refused(path):
    with pytest.raises(CheckpointError) as error:
        restricted_load(str(path))
    assert str(path) in str(error.value) and len(str(error.value)) < 500
    return str(error.value)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_what_torch_save_writes(zipped, tmp_path):
    weight = torch.randn(4, 3)
    state = {
        "args": argparse.Namespace(a=1, b="x", c=[1.5, None]),
        "model": collections.OrderedDict(
            a=weight, b=weight, c=weight.t(), d=torch.ones(3, dtype=torch.bfloat16),
            e=torch.zeros(0), f=torch.nn.Parameter(weight[1:]),
        ),
        "best": [np.float64(0.25), np.float32(0.5), np.int64(-7), np.bool_(True)],
        "optimizer": {0: {"step": 3, "size": torch.Size([2, 3])}},
    }  # fmt: skip
    state["model"]._metadata = {"": {"version": 1}}
    torch.save(state, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    found = restricted_load(str(tmp_path / "a.pt"))
    for name, tensor in state["model"].items():
        assert found["model"][name].dtype == tensor.dtype
        assert found["model"][name].equal(tensor.detach())
    assert found["args"] == state["args"]
    assert found["best"] == [0.25, 0.5, -7, True]
    assert [type(value) for value in found["best"]] == [float, float, int, bool]
    assert found["optimizer"] == {0: {"step": 3, "size": (2, 3)}}


@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
@FORMATS
def test_numbers_of_both_numpys(module, form, tmp_path):
    pickled = pickle_of({"best": np.float64(0.25)})
    for written in (b"numpy.core.multiarray", b"numpy._core.multiarray"):
        pickled = pickled.replace(b"c" + written + b"\n", b"c" + module.encode() + b"\n")
    assert restricted_load(str(form(tmp_path / "a.pt", pickled))) == {"best": 0.25}


CHANGES = {
    "a_class": NAMESPACE + STATE + b"b",
    "a_class_by_setstate": NAMESPACE + b"}" + text("__setstate__") + b"Nsb",
    "a_class_by_slots": NAMESPACE + b"N" + STATE + b"\x86b",
    "ordered_dict": ORDERED + STATE + b"b",
    "a_function": a_global("torch._utils", "_rebuild_tensor") + STATE + b"b",
    "a_dtype": a_global("torch", "FloatStorage") + STATE + b"b",
    "numpys_type": a_global("numpy", "dtype") + STATE + b"b",
    "a_list": b"]" + STATE + b"b",
    "a_tensor": a_tensor(1, [1], [1]) + STATE + b"b",
    "from_the_memo": NAMESPACE + b"q\x00" + b"0" + b"h\x00" + STATE + b"b",
    "entries_of_a_namespace": NAMESPACE + EMPTY + b"\x81" + text("a") + b"\x88s",
    "entries_of_a_tensor": a_tensor(1, [1], [1]) + number(0) + number(7) + b"s",
    "append_to_a_class": NAMESPACE + number(0) + b"a",
}
CALLS = {
    "a_dtype": a_global("torch", "FloatStorage") + EMPTY + b"R",
    "a_namespace": NAMESPACE + EMPTY + b"\x81" + EMPTY + b"R",
    "a_text": text("print") + EMPTY + b"R",
    "arguments_of_a_dict": NAMESPACE + b"}" + b"R",
    "namespace_with_arguments": NAMESPACE + text("a") + b"\x85R",
    "a_size_of_a_tensor": a_global("torch", "Size") + a_tensor(0, [2**40, 0], [0, 0]) + b"\x85R",
    "another_encoding": a_global("_codecs", "encode") + text("a") + text("rot13") + b"\x86R",
    "inst": b"(" + b"iargparse\nNamespace\n",
    "stack_global": text("os") + text("system") + b"\x93",
    "extension": b"\x82\x01",
    "newobj_ex": NAMESPACE + EMPTY + b"}\x92",
    "a_set": b"\x8f",
    "a_long_bytearray": b"\x96" + (2**40).to_bytes(8, "little"),
}
GLOBALS = [
    ("os", "system"), ("posix", "system"), ("builtins", "eval"), ("__builtin__", "exec"),
    ("builtins", "getattr"), ("torch", "load"), ("torch.storage", "_load_from_bytes"),
    ("operator", "attrgetter"), ("numpy", "load"), ("argparse", "ArgumentParser"),
    ("fairseq.models.fconv", "FConvModel"), ("", ""), ("argparse", "Namespace.__init__"),
]  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
@FORMATS
def test_nothing_but_its_own_objects_is_changed(name, form, tmp_path):
    storages = {"0": b"\0\0\0\0"} if form is archive else ["0"]
    refused(form(tmp_path / "bad.pt", a_dict(CHANGES[name]), storages))
    for there in (argparse.Namespace, collections.OrderedDict, torch.float32, np.dtype):
        assert not hasattr(there, "poisoned")
    assert argparse.Namespace(a=1).a == 1 and not hasattr(argparse.Namespace, "__setstate__")


def test_attributes_go_into_the_object_alone(tmp_path):
    change = NAMESPACE + EMPTY + b"\x81}" + text("__class__") + b"\x88s" + b"b"
    args = restricted_load(str(archive(tmp_path / "a.pt", a_dict(change))))["model"]
    assert type(args) is argparse.Namespace and vars(args) == {"__class__": True}


@pytest.mark.parametrize("name", CALLS)
@FORMATS
def test_calls_of_what_is_no_function(name, form, tmp_path):
    refused(form(tmp_path / "bad.pt", a_dict(CALLS[name])))


@pytest.mark.parametrize("module, name", GLOBALS)
def test_names_that_no_checkpoint_needs(module, name, tmp_path):
    message = refused(archive(tmp_path / "bad.pt", a_dict(a_global(module, name))))
    assert f"it asks for {module}.{name}, which no checkpoint needs" in message


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("place", ["value", "key", "deep"])
def test_code_does_not_run(place, zipped, tmp_path):
    trap = Touch(tmp_path / "ran")
    state = {"value": {"a": trap}, "key": {trap: 1}, "deep": {"a": [({"b": [trap]},)]}}[place]
    torch.save(state, tmp_path / "bad.pt", _use_new_zipfile_serialization=zipped)
    assert "it asks for" in refused(tmp_path / "bad.pt")
    assert not (tmp_path / "ran").exists()


TENSORS = {
    "many_over_one": a_tensor(1, [2**31], [0]),
    "many_by_three_sizes": a_tensor(1, [2**20, 2**20, 2**20], [0, 0, 0]),
    "more_than_there_are": a_tensor(1, [2], [1]),
    "beyond_the_end": a_tensor(1, [1], [1], offset=1),
    "a_wide_step": a_tensor(1, [2], [2**62]),
    "negative_size": a_tensor(1, [-1], [1]),
    "negative_offset": a_tensor(1, [1], [1], offset=-1),
    "size_of_70_bits": a_tensor(1, [2**70], [1]),
    "more_steps_than_sizes": a_tensor(1, [1], [1, 1]),
    "a_storage_of_another_length": a_tensor(2, [1], [1]),
    "a_storage_of_billions": a_tensor(2**40, [1], [1]),
    "a_negative_storage": a_tensor(-1, [1], [1]),
    "another_type": a_tensor(1, [1], [1], kind="DoubleStorage"),
    "an_absent_storage": a_tensor(1, [1], [1], key="../data.pkl"),
}


@pytest.mark.parametrize("name", TENSORS)
@FORMATS
def test_tensors_that_claim_what_is_not_there(name, form, tmp_path):
    if form is archive:
        path = archive(tmp_path / "bad.pt", a_dict(TENSORS[name]), {"0": b"\0\0\0\0"})
    else:
        after = (1).to_bytes(8, "little") + b"\0\0\0\0"
        path = legacy(tmp_path / "bad.pt", a_dict(TENSORS[name]), ["0"], after)
    refused(path)


def test_a_storage_shared_by_hundreds(tmp_path):
    many = b"(" + 200 * a_tensor(2**18, [2**18], [1]) + b"t"
    path = archive(tmp_path / "bad.pt", a_dict(many), {"0": bytes(2**20)})
    assert "claim many times the bytes of the file" in refused(path)


def test_a_storage_with_two_types(tmp_path):
    both = b"(" + a_tensor(1, [1], [1]) + a_tensor(1, [1], [1], kind="IntStorage") + b"t"
    assert "of two kinds" in refused(archive(tmp_path / "bad.pt", a_dict(both), {"0": bytes(4)}))


def test_legacy_storages_that_are_not_listed(tmp_path):
    """Their memory would hold what this process had there before."""
    assert "list of storages" in refused(legacy(tmp_path / "a", a_dict(a_tensor(1, [1], [1]))))


@pytest.mark.parametrize("what", ["pickle", "storage"])
def test_archives_that_swell(what, tmp_path):
    """Half a gigabyte of one byte, in half a megabyte."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    numel = 2**27
    with zipfile.ZipFile(tmp_path / "bad.pt", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        if what == "storage":
            stored = zipfile.ZipInfo("a/data.pkl")
            file.writestr(stored, a_dict(a_tensor(numel, [numel], [1])))
        with file.open("a/data.pkl" if what == "pickle" else "a/data/0", "w") as entry:
            for _ in range(4 * numel // 2**20):
                entry.write(b"]" * 2**20)
    assert os.path.getsize(tmp_path / "bad.pt") < 10_000_000
    assert "uncompressed" in refused(tmp_path / "bad.pt")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 300_000 * (1 if sys.platform == "linux" else 1024)


def test_long_pickles(tmp_path):
    path = archive(tmp_path / "bad.pt", b"\x80\x02" + bytes(2**24 + 10))
    assert "torch.save does not write" in refused(path)
    path = archive(tmp_path / "bad.pt", b"\x80\x02" + b"N0" * 2**23)
    refused(path)
    path = archive(tmp_path / "bad.pt", b"\x80\x02" + text("x" * (2**24 + 10)) + b".")
    assert "its pickle is longer than 16777216 bytes" in refused(path)


def test_a_file_of_two_formats_is_read_as_torch_reads_it(tmp_path):
    """An archive behind a pickle: what is checked must not be another part than what is loaded."""
    torch.save(
        {"a": Touch(tmp_path / "ran")}, tmp_path / "bad", _use_new_zipfile_serialization=False
    )
    torch.save({"a": torch.ones(3)}, tmp_path / "good")
    both = (tmp_path / "bad").read_bytes() + (tmp_path / "good").read_bytes()
    (tmp_path / "both").write_bytes(both)
    assert zipfile.is_zipfile(tmp_path / "both")
    assert "it asks for" in refused(tmp_path / "both")


def test_deep_nesting_and_loops_are_read_without_recursion(tmp_path):
    pickled = b"\x80\x02}" + text("a") + b"]" * 100_000 + b"a" * 99_999 + b"s."
    assert type(restricted_load(str(archive(tmp_path / "deep.pt", pickled)))["a"]) is list
    pickled = b"\x80\x02}q\x00" + text("a") + b"h\x00s."
    loop = restricted_load(str(legacy(tmp_path / "loop.pt", pickled)))
    assert loop["a"] is loop


@pytest.mark.parametrize("key", [number(2**70), number(1.5), b")", b"N", a_tensor(1, [1], [1])])
def test_keys_that_are_neither_names_nor_numbers(key, tmp_path):
    pickled = b"\x80\x02}" + key + b"\x88s."
    refused(archive(tmp_path / "bad.pt", pickled, {"0": bytes(4)}))


@pytest.mark.parametrize("value", [[1], None, 3, "text", torch.ones(3)], ids=repr)
def test_what_is_no_dict(value, tmp_path):
    torch.save(value, tmp_path / "bad.pt")
    assert f"holds a {type(value).__name__}, not a checkpoint" in refused(tmp_path / "bad.pt")


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        assert "is not a file" in refused(path)
    with pytest.raises(FileNotFoundError):
        restricted_load(str(tmp_path / "absent"))


def test_two_pickles_or_none(tmp_path):
    with zipfile.ZipFile(tmp_path / "bad.pt", "w") as file:
        file.writestr("a/data.pkl", b"\x80\x02}.")
        file.writestr("b/data.pkl", b"\x80\x02}.")
    assert "2 uncompressed entries" in refused(tmp_path / "bad.pt")
    with zipfile.ZipFile(tmp_path / "none.pt", "w") as file:
        file.writestr("a/data", b"")
    assert "0 uncompressed entries" in refused(tmp_path / "none.pt")


@pytest.mark.parametrize("tenths", range(10))
def test_cut_anywhere(tenths, tmp_path):
    torch.save({"a": torch.ones(3)}, tmp_path / "a.pt")
    content = (tmp_path / "a.pt").read_bytes()
    (tmp_path / "a.pt").write_bytes(content[: tenths * len(content) // 10])
    assert "is truncated, damaged or not a checkpoint" in refused(tmp_path / "a.pt")
