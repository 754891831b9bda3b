"""Reads an untrusted checkpoint without running any code that it contains.

``torch.load`` cannot do it for the files of the TUPE authors' day: they hold objects of modules
that no longer exist, ``weights_only=True`` allows for no exceptions before torch 2.4, and
torch 1.13 ignores the ``pickle_module`` that it is given.  Hence a reader of our own, for both
formats of ``torch.save``, whose unpickler imports nothing: tensors, containers and
``argparse.Namespace`` are rebuilt, a few known kinds of training statistics become empty
placeholders, and anything else is refused.
"""

import argparse
import collections
import pickle
import zipfile
from typing import Any, BinaryIO, Dict

import torch
from torch import Tensor

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_PROTOCOL = 1001


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message says why."""


class Placeholder:
    """Stands for an object whose class is not imported."""

    def __init__(self, *args):
        pass

    def __setstate__(self, state):
        pass


def _rebuild_tensor(storage: Tensor, offset, size, stride, *grad_hooks_and_metadata) -> Tensor:
    return storage.as_strided(size, stride, offset)


def _rebuild_parameter(data: Tensor, requires_grad, hooks) -> Tensor:
    return data


_KNOWN_GLOBALS = {
    ("argparse", "Namespace"): argparse.Namespace,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("fairseq.meters", "AverageMeter"): Placeholder,
    ("fairseq.meters", "StopwatchMeter"): Placeholder,
    ("fairseq.meters", "TimeMeter"): Placeholder,
    ("numpy", "dtype"): Placeholder,
    ("numpy.core.multiarray", "scalar"): Placeholder,
    ("torch", "Size"): tuple,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    # a storage class says no more than its dtype
    ("torch", "BFloat16Storage"): torch.bfloat16,
    ("torch", "BoolStorage"): torch.bool,
    ("torch", "ByteStorage"): torch.uint8,
    ("torch", "DoubleStorage"): torch.float64,
    ("torch", "FloatStorage"): torch.float32,
    ("torch", "HalfStorage"): torch.float16,
    ("torch", "IntStorage"): torch.int32,
    ("torch", "LongStorage"): torch.int64,
}


class _RefusedGlobal(pickle.UnpicklingError):
    pass


class _Unpickler(pickle.Unpickler):
    """An unpickler that knows the names above and imports nothing.

    Args:
        file (binary file): a pickle.
        load_storage (callable): from dtype, key and number of elements to a flat tensor.
    """

    def __init__(self, file: BinaryIO, load_storage=None):
        super().__init__(file, encoding="utf-8")
        self.load_storage = load_storage

    def find_class(self, module, name):
        if (module, name) not in _KNOWN_GLOBALS:
            raise _RefusedGlobal(f"it asks for {module}.{name}, which no checkpoint needs")
        return _KNOWN_GLOBALS[module, name]

    def persistent_load(self, pid):
        # zip format: 5 entries; the format before: 6, the last for a view of another storage
        kind, dtype, key, _location, numel, *view = pid
        if kind != "storage":
            raise pickle.UnpicklingError(f"it refers to a {kind!r}")
        storage = self.load_storage(dtype, key, numel)
        if view and view[0] is not None:
            _view_key, offset, size = view[0]
            return storage[offset : offset + size]
        return storage


def _tensor_from_bytes(content: bytes, dtype: torch.dtype, numel: int) -> Tensor:
    if numel == 0:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer(bytearray(content), dtype=dtype, count=numel)


def _load_zip(file: BinaryIO) -> Any:
    with zipfile.ZipFile(file) as archive:
        (pickled,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        folder = pickled[: -len("data.pkl")]

        def load_storage(dtype, key, numel):
            return _tensor_from_bytes(archive.read(f"{folder}data/{key}"), dtype, numel)

        with archive.open(pickled) as data:
            return _Unpickler(data, load_storage).load()


def _load_legacy(file: BinaryIO) -> Any:
    """Before torch 1.6: five pickles, then the storages that the fourth refers to, in order."""
    magic, protocol, _system = (_Unpickler(file).load() for _ in range(3))
    if magic != _LEGACY_MAGIC or protocol != _LEGACY_PROTOCOL:
        raise pickle.UnpicklingError("it does not begin as torch's files do")
    storages: Dict[str, Tensor] = {}

    def load_storage(dtype, key, numel):
        if key not in storages:
            storages[key] = torch.empty(numel, dtype=dtype)
        return storages[key]

    state = _Unpickler(file, load_storage).load()
    for key in _Unpickler(file).load():
        storage = storages[key]
        numel = int.from_bytes(file.read(8), "little")
        if numel != storage.numel():
            raise pickle.UnpicklingError(f"storage {key} has {numel} entries, not {len(storage)}")
        content = file.read(numel * storage.element_size())
        storage.copy_(_tensor_from_bytes(content, storage.dtype, numel))
    return state


def restricted_load(path: str) -> Dict[str, Any]:
    """Read a checkpoint onto the CPU without running anything that it contains.

    Args:
        path (str): file in torch's zip or pre-1.6 format, little-endian.
    Returns:
        dict: its contents; objects of known statistics classes are ``Placeholder``.
    Raises:
        FileNotFoundError: if there is no such file.
        CheckpointError: if it asks for any other code, is damaged, or is not a dict.
    """
    with open(path, "rb") as file:
        is_zip = zipfile.is_zipfile(file)
        file.seek(0)
        try:
            state = _load_zip(file) if is_zip else _load_legacy(file)
        except _RefusedGlobal as error:
            raise CheckpointError(f"{path} is refused: {error}") from error
        except Exception as error:  # a damaged pickle can raise anything
            raise CheckpointError(
                f"{path} is truncated, damaged or not a checkpoint: {type(error).__name__}: {error}"
            ) from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path} holds a {type(state).__name__}, not a checkpoint")
    return state
