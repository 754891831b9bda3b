"""Reads an untrusted checkpoint without running any code that it contains.

``torch.load`` cannot do it for the files of the TUPE authors' day: they hold objects of modules
that no longer exist, ``weights_only=True`` allows for no exceptions before torch 2.4, and
torch 1.13 ignores the ``pickle_module`` that it is given.  Hence a reader of our own, for both
formats of ``torch.save``: tensors, containers, plain numbers and ``argparse.Namespace`` are
rebuilt, a few known kinds of training statistics become empty placeholders, and anything else is
refused.  What it needs of memory and time is in proportion to the file.

No part of torch's reader is used, neither the one for archives nor the unpickler of
``weights_only=True``, which could be made to corrupt memory before torch 2.10 (CVE-2026-24747): by
entries put into a tensor, or a storage with another number of elements than the archive has of it.
Here both are refused, on every torch.  What holds for this reader does not hold for the next one:
whoever gives the same file to ``torch.load`` has it parsed by other rules.
"""

import os
import pickle
import stat
import zipfile
from typing import Any, BinaryIO

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.restricted_unpickler import (
    RefusedGlobal,
    RestrictedUnpickler,
    Storage,
)

# how a file begins that torch takes for an archive; Python's zipfile looks at its end
_ZIP_MAGIC = b"PK\x03\x04"
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_PROTOCOL = 1001
# A pickle holds names and shapes, about 200 bytes per tensor; the weights are beside it.
_LONGEST_PICKLE = 2**24
# Tensors may share a storage (the LM head and the word embedding do), but not by the hundred.
_MOST_SHARED = 4


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message says why."""


class _Bounded:
    """A file of which no more is read than the longest pickle."""

    def __init__(self, file):
        self._file = file
        self._left = _LONGEST_PICKLE

    def read(self, size: int) -> bytes:
        return self._count(self._file.read(min(size, self._left + 1)))

    def readline(self) -> bytes:
        return self._count(self._file.readline(self._left + 1))

    def _count(self, content: bytes) -> bytes:
        self._left -= len(content)
        if self._left < 0:
            raise pickle.UnpicklingError(f"its pickle is longer than {_LONGEST_PICKLE} bytes")
        return content


def _tensor_from_bytes(content: bytes, dtype: torch.dtype, numel: int) -> Tensor:
    if numel == 0:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer(bytearray(content), dtype=dtype, count=numel)


def _bytes_of(numel: int, dtype: torch.dtype) -> int:
    return numel * torch.empty(0, dtype=dtype).element_size()


def _load_zip(file: BinaryIO, most_bytes: int) -> Any:
    with zipfile.ZipFile(file) as archive:
        # torch compresses nothing but the code of TorchScript, which is not read
        entries = {i.filename: i for i in archive.infolist() if i.file_size == i.compress_size}
        if sum(info.file_size for info in entries.values()) > os.fstat(file.fileno()).st_size:
            raise pickle.UnpicklingError("its entries claim more bytes than the file has")
        pickles = [name for name in entries if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise pickle.UnpicklingError(
                f"{len(pickles)} uncompressed entries of its archive are named data.pkl, not 1"
            )
        folder = pickles[0][: -len("data.pkl")]
        storages: dict[str, Storage] = {}

        def load_storage(dtype, key, numel):
            if key not in storages:
                name = f"{folder}data/{key}"
                size = entries[name].file_size if name in entries else 0
                if size != _bytes_of(numel, dtype):
                    raise pickle.UnpicklingError(f"storage {key} has {size} bytes uncompressed")
                content = archive.read(entries[name]) if numel else b""
                storages[key] = Storage(_tensor_from_bytes(content, dtype, numel))
            return _same(storages[key], key, dtype, numel)

        with archive.open(entries[pickles[0]]) as data:
            return RestrictedUnpickler(_Bounded(data), load_storage, most_bytes).load()


def _same(storage: Storage, key: str, dtype: torch.dtype, numel: int) -> Storage:
    if (storage.flat.dtype, storage.flat.numel()) != (dtype, numel):
        raise pickle.UnpicklingError(f"storage {key} is claimed to be of two kinds")
    return storage


def _load_legacy(file: BinaryIO, most_bytes: int) -> Any:
    """Before torch 1.6: five pickles, then the storages that the fourth refers to, in order."""
    magic, protocol, _system = (RestrictedUnpickler(_Bounded(file)).load() for _ in range(3))
    if magic != _LEGACY_MAGIC or protocol != _LEGACY_PROTOCOL:
        raise pickle.UnpicklingError("it does not begin as torch's files do")
    storages: dict[str, Storage] = {}
    left = os.fstat(file.fileno()).st_size

    def load_storage(dtype, key, numel):
        nonlocal left
        if key not in storages:
            left -= _bytes_of(numel, dtype)
            if left < 0:
                raise pickle.UnpicklingError("its storages claim more bytes than the file has")
            storages[key] = Storage(torch.empty(numel, dtype=dtype))
        return _same(storages[key], key, dtype, numel)

    state = RestrictedUnpickler(_Bounded(file), load_storage, most_bytes).load()
    keys = RestrictedUnpickler(_Bounded(file)).load()
    if not isinstance(keys, list) or sorted(keys) != sorted(storages):
        raise pickle.UnpicklingError("its list of storages is not that of its tensors")
    for key in keys:
        flat = storages[key].flat
        numel = int.from_bytes(file.read(8), "little")
        if numel != flat.numel():
            raise pickle.UnpicklingError(f"storage {key} has {numel} entries, not {len(flat)}")
        content = file.read(numel * flat.element_size())
        flat.copy_(_tensor_from_bytes(content, flat.dtype, numel))
    return state


def restricted_load(path: str) -> dict[str, Any]:
    """Read a checkpoint onto the CPU without running anything that it contains.

    Args:
        path (str): file in torch's zip or pre-1.6 format, little-endian.
    Returns:
        dict: its contents; objects of known statistics classes are ``Placeholder``, numpy's
        numbers plain ones.
    Raises:
        FileNotFoundError: if there is no such file.
        CheckpointError: if it asks for any other code, is damaged, is not a dict, or is not a file
            (a named pipe could be waited for forever).
    """
    if not os.path.lexists(path):
        raise FileNotFoundError(f"{path} does not exist; give a checkpoint")
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise CheckpointError(f"{path} is not a file; give a checkpoint")
    with open(path, "rb") as file:
        is_zip = file.read(len(_ZIP_MAGIC)) == _ZIP_MAGIC
        file.seek(0)
        most_bytes = _MOST_SHARED * os.fstat(file.fileno()).st_size
        try:
            state = (_load_zip if is_zip else _load_legacy)(file, most_bytes)
        except RefusedGlobal as error:
            raise CheckpointError(f"{path} is refused: {error}") from error
        except Exception as error:  # a damaged pickle can raise anything
            raise CheckpointError(
                f"{path} is truncated, damaged or not a checkpoint: {type(error).__name__}: {error}"
            ) from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path} holds a {type(state).__name__}, not a checkpoint")
    return state
