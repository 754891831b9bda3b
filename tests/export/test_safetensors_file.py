"""The reader of safetensors: what the library writes, and files that were made to do harm."""

import json

import pytest
import torch
from safetensors.torch import save_file

from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.export.safetensors_file import read_safetensors


def write(path, header, content=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)
    return str(path)


def entry(shape=(2,), offsets=(0, 8), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_what_the_library_writes(tmp_path):
    tensors = {
        "b": torch.randn(3, 2), "a": torch.randn(5).bfloat16(), "c": torch.randn(()).double(),
        "d": torch.zeros(0, 4), "e": torch.tensor([True, False, True]), "f": torch.arange(3),
        "g": torch.randn(3).half(),
    }  # fmt: skip
    save_file(tensors, tmp_path / "a", metadata={"format": "pt"})
    found = read_safetensors(str(tmp_path / "a"))
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype and found[name].equal(tensor), name
        assert found[name].shape == tensor.shape


BAD = {
    "empty": (b"", b"", "truncated, or not a safetensors file"),
    "an_array": ([], b"", "its header is not an object"),
    "no_json": (b"{..", b"", "is not a safetensors file"),
    "nested": (b'{"a":' + b"[" * 10**5, b"", "is not a safetensors file"),
    "twice": (b'{"a":{},"a":{}}', b"", "a name is there twice"),
    "no_entry": ({"a": 3}, b"", "entry 'a' describes no tensor"),
    "no_offsets": ({"a": {"dtype": "F32", "shape": [2]}}, bytes(8), "describes no tensor"),
    "a_fraction": ({"a": entry(shape=(2.0,))}, bytes(8), "describes no tensor"),
    "true": ({"a": entry(shape=(True,), offsets=(0, 4))}, bytes(4), "describes no tensor"),
    "negative": ({"a": entry(shape=(-2,))}, bytes(8), "describes no tensor"),
    "large": ({"a": entry(shape=(2**62, 2**62))}, bytes(8), "another size than its shape"),
    "deep": ({"a": entry(shape=(1,) * 17, offsets=(0, 4))}, bytes(4), "describes no tensor"),
    "quantized": ({"a": entry(dtype="F8_E4M3")}, bytes(8), "of the kind 'F8_E4M3'; expected are"),
    "backwards": ({"a": entry(offsets=(8, 0))}, bytes(8), "another size than its shape"),
    "a_gap": ({"a": entry(offsets=(4, 12))}, bytes(12), "not where they should be"),
    "overlapping": ({"a": entry(), "b": entry(offsets=(4, 12))}, bytes(12), "not where they"),
    "cut": ({"a": entry()}, bytes(7), "truncated or damaged"),
    "a_terabyte": ({"a": entry((2**38,), (0, 2**40))}, bytes(8), "truncated or damaged"),
    "more": ({"a": entry()}, bytes(9), "1 bytes belong to no tensor"),
}


@pytest.mark.parametrize("case", BAD)
def test_damaged(case, tmp_path):
    header, content, message = BAD[case]
    path = write(tmp_path / "bad", header, content)
    with pytest.raises(CheckpointError, match=message) as error:
        read_safetensors(path)
    assert len(str(error.value)) < 400 and path in str(error.value)


@pytest.mark.parametrize("length", [2**63, 2**24 + 1])
def test_a_header_of_billions(length, tmp_path):
    (tmp_path / "bad").write_bytes(length.to_bytes(8, "little") + b"{}")
    with pytest.raises(CheckpointError, match="truncated, or not a safetensors file"):
        read_safetensors(str(tmp_path / "bad"))


def test_cut_anywhere(tmp_path):
    save_file({"a": torch.ones(3), "b": torch.ones(2)}, tmp_path / "a")
    content = (tmp_path / "a").read_bytes()
    for length in range(len(content)):
        (tmp_path / "a").write_bytes(content[:length])
        with pytest.raises(CheckpointError):
            read_safetensors(str(tmp_path / "a"))
