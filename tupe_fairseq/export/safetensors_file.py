"""Reads tensors in the safetensors format, which holds numbers and names and no code.

A file is the length of a JSON header, the header, and the numbers of all tensors, one after the
other.  Every entry of the header is checked, so that reading needs no more memory than the file has
bytes.  Format: https://github.com/huggingface/safetensors.
"""

import json
import math
import os
import stat
from typing import Any, BinaryIO

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.checkpoint import CheckpointError

_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip
# about 150 bytes a tensor
_LONGEST_HEADER = 2**24
_METADATA = "__metadata__"


def read_safetensors(path: str) -> dict[str, Tensor]:
    """The tensors of a file by name, on the CPU.

    Args:
        path (str): the file, little-endian as the format is.
    Raises:
        OSError: if it cannot be read.
        CheckpointError: if it is not a file of this format, is truncated, or has numbers of a kind
            that no model of ours has.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise CheckpointError(f"{path} is not a file")
    with open(path, "rb") as file:
        entries, left = _header(file, path)
        tensors = {}
        start = 0
        for begin, name, dtype, shape in entries:
            size = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
            if begin != start or size > left:
                raise CheckpointError(
                    f"{path} is truncated or damaged: the bytes of {name} are not where they "
                    "should be"
                )
            content = bytearray(size)
            if file.readinto(content) != size:
                raise CheckpointError(f"{path} is truncated amid {name}")
            flat = torch.frombuffer(content, dtype=dtype) if size else torch.empty(0, dtype=dtype)
            tensors[name] = flat.reshape(shape)
            start, left = start + size, left - size
    if left:
        raise CheckpointError(f"{path} is damaged: {left} bytes belong to no tensor")
    return tensors


def _header(file: BinaryIO, path: str) -> tuple[list[tuple[int, str, torch.dtype, list[int]]], int]:
    """Begin, name, dtype and shape of each tensor in the order of their bytes; the bytes left."""
    left = os.fstat(file.fileno()).st_size - 8
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(left, _LONGEST_HEADER):
        raise CheckpointError(f"{path} is truncated, or not a safetensors file")
    try:
        header = json.loads(file.read(length).decode(), object_pairs_hook=_without_repeats)
    except (RecursionError, ValueError) as error:
        raise CheckpointError(f"{path} is not a safetensors file: {error}") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"{path} is not a safetensors file: its header is not an object")
    header.pop(_METADATA, None)
    entries = [_entry(name, value, path) for name, value in header.items()]
    # the tensors without a number lie at the beginning of the next
    return sorted(entries, key=lambda e: (e[0], math.prod(e[3]))), left - length


def _entry(name: str, value: Any, path: str) -> tuple[int, str, torch.dtype, list[int]]:
    fields = value if isinstance(value, dict) else {}
    kind, shape, offsets = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    if isinstance(kind, str) and kind not in _DTYPES:
        raise CheckpointError(
            f"{path}: the tensor {name[:80]} is of the kind {kind[:20]!r}; expected are "
            f"{', '.join(_DTYPES)}"
        )
    known = isinstance(kind, str) and _are_sizes(shape) and _are_sizes(offsets)
    if not known or len(offsets) != 2 or len(shape) > 16:
        raise CheckpointError(f"{path} is damaged: its entry {name[:80]!r} describes no tensor")
    dtype = _DTYPES[kind]
    if offsets[1] - offsets[0] != math.prod(shape) * torch.empty(0, dtype=dtype).element_size():
        raise CheckpointError(f"{path} is damaged: {name[:80]} has another size than its shape")
    return offsets[0], name, dtype, shape


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 2**63 for n in values)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found
