"""An unpickler that imports nothing, and acts on nothing but what it has made itself.

Python's own would do for the names (``find_class``), but not for the rest: with BUILD a pickle sets
attributes of whatever is on its stack, a class of this process included.  Here a name stands for a
``_Global``, which can be called and nothing else; only objects made by the same pickle are filled;
and of the machine's instructions only those exist that ``torch.save`` writes.
"""

import argparse
import codecs
import collections
import math
import pickle
import struct
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# instructions of the protocols 0 to 2; the later ones and those for odd classes are left out
_INSTRUCTIONS = (
    "PROTO STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE "
    "BINSTRING SHORT_BINSTRING EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST EMPTY_DICT "
    "BINPUT LONG_BINPUT BINGET LONG_BINGET GLOBAL BINPERSID"
)
# how numpy names a simple type, and the sign for it in Python's module struct
_NUMPY_TYPES = {
    "f8": "d", "f4": "f", "f2": "e", "i8": "q", "i4": "i", "i2": "h", "i1": "b",
    "u8": "Q", "u4": "I", "u2": "H", "u1": "B", "b1": "?",
}  # fmt: skip
_MOST_DIMENSIONS = 16


class RefusedGlobal(pickle.UnpicklingError):
    """The pickle asks for a class or function that no checkpoint needs."""


class Placeholder:
    """Stands for an object whose class is not imported."""


class Storage:
    """Memory for tensors, flat; not itself a tensor that a pickle could put anywhere."""

    def __init__(self, flat: Tensor):
        self.flat = flat


class _NumpyType:
    """What a pickle says of a numpy dtype."""

    def __init__(self, name: str, *align_and_copy):
        self.name, self.order = name, "<"


class _Global:
    """A name in a pickle; ``make`` gives what calling it would have given."""

    def __init__(self, make: Callable):
        self.make = make


def _placeholder(*args) -> Placeholder:
    return Placeholder()


def _empty(kind: type) -> Callable:
    """Makes an empty object; its entries or attributes follow in instructions of their own."""

    def make():
        return kind()

    return make


def _size(entries) -> tuple:
    if type(entries) not in (tuple, list):
        raise pickle.UnpicklingError("a torch.Size of something that is no list of sizes")
    return tuple(entries)


def _encode(text: str, encoding: str) -> bytes:
    """How bytes are written in protocol 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes in the encoding {encoding!r}")
    return codecs.encode(text, "latin1")


def _numpy_scalar(kind: _NumpyType, content: bytes = b"") -> Any:
    """A plain number, if it is one."""
    sign = _NUMPY_TYPES.get(kind.name)
    if sign is None or not isinstance(content, bytes):
        return Placeholder()
    return struct.unpack(("<" if kind.order in "<|=" else ">") + sign, content)[0]


def _are_sizes(values: Any) -> bool:
    is_list = type(values) in (tuple, list) and len(values) <= _MOST_DIMENSIONS
    return is_list and all(type(n) is int and 0 <= n < 2**63 for n in values)


def _rebuild_parameter(data: Tensor, requires_grad=None, hooks=None) -> Tensor:
    return data


_GLOBALS = {
    ("_codecs", "encode"): _Global(_encode),
    ("argparse", "Namespace"): _Global(_empty(argparse.Namespace)),
    ("collections", "OrderedDict"): _Global(_empty(collections.OrderedDict)),
    ("fairseq.meters", "AverageMeter"): _Global(_placeholder),
    ("fairseq.meters", "StopwatchMeter"): _Global(_placeholder),
    ("fairseq.meters", "TimeMeter"): _Global(_placeholder),
    ("numpy", "dtype"): _Global(_NumpyType),
    ("numpy.core.multiarray", "scalar"): _Global(_numpy_scalar),
    ("numpy._core.multiarray", "scalar"): _Global(_numpy_scalar),  # since numpy 2
    ("torch", "Size"): _Global(_size),
    ("torch._utils", "_rebuild_parameter"): _Global(_rebuild_parameter),
}
_REBUILD_TENSOR = {("torch._utils", "_rebuild_tensor"), ("torch._utils", "_rebuild_tensor_v2")}
# a storage class says no more than its dtype
_DTYPES = {
    "BFloat16Storage": torch.bfloat16,
    "BoolStorage": torch.bool,
    "ByteStorage": torch.uint8,
    "CharStorage": torch.int8,
    "ComplexDoubleStorage": torch.complex128,
    "ComplexFloatStorage": torch.complex64,
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "IntStorage": torch.int32,
    "LongStorage": torch.int64,
    "ShortStorage": torch.int16,
}


def _refuse(unpickler) -> None:
    raise pickle.UnpicklingError("it has an instruction that torch.save does not write")


class RestrictedUnpickler(pickle._Unpickler):  # Python's own in Python: C's takes no instructions
    """Reads one pickle of a checkpoint.

    Args:
        file: what has ``read`` and ``readline``.
        load_storage (callable): from dtype, key and number of elements to a :class:`Storage`.
        most_bytes (int): what all tensors together may take.
    """

    dispatch: dict[int, Callable] = dict.fromkeys(range(256), _refuse)
    for _name in _INSTRUCTIONS.split():
        _code = getattr(pickle, _name)[0]
        dispatch[_code] = pickle._Unpickler.dispatch[_code]

    def __init__(self, file, load_storage: Callable | None = None, most_bytes: int = 0):
        super().__init__(file, encoding="utf-8")
        self._load_storage = load_storage
        self._bytes_left = most_bytes
        self._rebuild_tensor = _Global(self._tensor)

    def find_class(self, module, name):
        if (module, name) in _REBUILD_TENSOR:
            return self._rebuild_tensor
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        if (module, name) not in _GLOBALS:
            raise RefusedGlobal(f"it asks for {module}.{name}, which no checkpoint needs")
        return _GLOBALS[module, name]

    def persistent_load(self, pid):
        # zip format: 5 entries; the format before: 6, the last for a view of another storage
        kind, dtype, key, _location, numel, *view = pid
        known = kind == "storage" and type(dtype) is torch.dtype and type(key) is str
        if not known or not _are_sizes([numel]) or self._load_storage is None:
            raise pickle.UnpicklingError("it refers to something that is no storage")
        storage = self._load_storage(dtype, key, numel)
        if view and view[0] is not None:
            _view_key, offset, size = view[0]
            if not _are_sizes([offset, size]) or offset + size > numel:
                raise pickle.UnpicklingError(f"a view is not within storage {key}")
            return Storage(storage.flat[offset : offset + size])
        return storage

    def _tensor(self, storage, offset, size, stride, *grad_hooks_and_metadata) -> Tensor:
        if type(storage) is not Storage or not _are_sizes([offset]):
            raise pickle.UnpicklingError("a tensor without a storage")
        if not (_are_sizes(size) and _are_sizes(stride) and len(size) == len(stride)):
            raise pickle.UnpicklingError("a tensor whose shape is not a list of sizes")
        flat, numel = storage.flat, math.prod(size)
        last = offset + sum((n - 1) * step for n, step in zip(size, stride))
        if numel and (numel > flat.numel() or last >= flat.numel()):
            raise pickle.UnpicklingError(
                f"a tensor of the shape {list(size)} in a storage of {flat.numel()} elements"
            )
        self._bytes_left -= numel * flat.element_size()
        if self._bytes_left < 0:
            raise pickle.UnpicklingError("its tensors claim many times the bytes of the file")
        return flat.as_strided(size, stride, offset)

    def _call(self):
        args = self.stack.pop()
        function = self.stack.pop()
        if type(function) is not _Global or type(args) is not tuple:
            raise pickle.UnpicklingError("it calls something that is no function")
        self.append(function.make(*args))

    def _build(self):
        state = self.stack.pop()
        made = self.stack[-1]
        if type(made) is argparse.Namespace and type(state) is dict:
            _check_keys(state, (str,))
            vars(made).update(state)
        elif type(made) is _NumpyType and type(state) is tuple:
            made.order = state[1]
        elif type(made) not in (Placeholder, collections.OrderedDict):  # which need no more
            raise pickle.UnpicklingError(f"it changes a {type(made).__name__}")

    def _extend(self, items):
        if type(self.stack[-1]) is not list:
            raise pickle.UnpicklingError("it appends to something that is no list")
        self.stack[-1].extend(items)

    def _update(self, items):
        if type(self.stack[-1]) not in (dict, collections.OrderedDict):
            raise pickle.UnpicklingError("it puts entries into something that is no dict")
        _check_keys(items[::2], (str, int))
        self.stack[-1].update(zip(items[::2], items[1::2]))

    def _append(self):
        self._extend([self.stack.pop()])

    def _appends(self):
        self._extend(self.pop_mark())

    def _setitem(self):
        value = self.stack.pop()
        self._update([self.stack.pop(), value])

    def _setitems(self):
        self._update(self.pop_mark())

    dispatch[pickle.REDUCE[0]] = dispatch[pickle.NEWOBJ[0]] = _call
    dispatch[pickle.BUILD[0]] = _build
    dispatch[pickle.APPEND[0]], dispatch[pickle.APPENDS[0]] = _append, _appends
    dispatch[pickle.SETITEM[0]], dispatch[pickle.SETITEMS[0]] = _setitem, _setitems


def _check_keys(keys, kinds) -> None:
    # numbers can be chosen so that a dict of them takes forever; those of 64 bits hardly
    for key in keys:
        if type(key) not in kinds or (type(key) is int and abs(key) >= 2**63):
            raise pickle.UnpicklingError("a dict has keys that are neither names nor numbers")
