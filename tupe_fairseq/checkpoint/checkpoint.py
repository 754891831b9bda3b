"""Reads a checkpoint of fairseq's or of the TUPE authors' without running any code of it.

``torch.load(weights_only=True)`` does the reading (torch >= 2.10: CVE-2026-24747). Three things are
added. The pickle may name only what fairseq writes: torch allows more, such as sparse tensors whose
indices it does not check. Every class that is not torch's is replaced by an inert one. And nothing
but plain numbers, words and dense tensors comes out.
"""

import argparse
import contextlib
import hashlib
import os
import pickletools
import re
import struct
import threading
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from tupe_fairseq.data.dictionary import MASK, SPECIAL_TOKENS

# ---- Names in a state dict ----------------------------------------------------------------------

ENCODER = "encoder.sentence_encoder."
EMBEDDING = ENCODER + "embed_tokens.weight"
LM_HEAD = "encoder.lm_head."
HEADS = "classification_heads."
VOCABULARY = "encoder.vocabulary_version"
#: the name of the head for tags, unless --classification-head-name gives another
TAGGING_HEAD = "token_tagging_head"


def classification_heads(tensors: dict[str, Tensor]) -> dict[str, int]:
    """The classification heads of a state dict: name to number of classes."""
    return {
        name.split(".")[1]: tensor.size(0)
        for name, tensor in tensors.items()
        if name.startswith(HEADS) and name.endswith(".out_proj.bias")
    }


def symbols_of(lines: Iterable[str]) -> list[str]:
    """The tokens of fairseq's dictionary for the lines of a dict.txt, with ``<mask>``."""
    symbols = [*SPECIAL_TOKENS, *(line.rpartition(" ")[0] for line in lines)]
    return symbols if MASK in symbols else [*symbols, MASK]


def vocabulary_version(symbols: Iterable[str]) -> Tensor:
    """A hash of a dictionary's tokens in order, int64 (): tells two vocabularies of one size."""
    digest = hashlib.sha256("\n".join(symbols).encode()).digest()
    # 48 bits: the sum over many checkpoints, of which an average is made, must not overflow
    return torch.tensor(int.from_bytes(digest[:6], "big"))


# ---- Reading ------------------------------------------------------------------------------------


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message names the file and says why."""


class Inert:
    """Stands for an object of any class that is not torch's: keeps its attributes, does nothing."""

    __slots__ = ("args", "attributes")

    def __new__(cls, *args):
        self = object.__new__(cls)
        self.args, self.attributes = args, {}
        return self

    def __setstate__(self, state: Any) -> None:
        self.attributes = state if type(state) is dict else {}


def _unpack(dtype: Inert, content: bytes) -> tuple[Any, ...]:
    codes = {"f8": "d", "f4": "f", "f2": "e", "i8": "q", "i4": "i", "b1": "?"}
    code = codes.get(dtype.args[0])
    if code is None:
        raise ValueError(f"numbers of numpy's type {dtype.args[0]!r:.20} are not read")
    return struct.unpack(f"<{len(content) // struct.calcsize(code)}{code}", content)


def number(dtype: Inert, content: bytes) -> float:
    """Stands for numpy's ``scalar``: a real dtype takes flags, and so addresses, from the file."""
    (value,) = _unpack(dtype, content)
    return value


class Array(np.ndarray):
    """Stands for numpy's arrays, such as the counts of --eval-bleu: float64, saved as one."""

    def __new__(cls, *args):
        return super().__new__(cls, 0)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, is_fortran, content = state
        values = np.reshape(_unpack(dtype, content), shape, order="F" if is_fortran else "C")
        self.resize(shape, refcheck=False)
        self[...] = values

    def __reduce__(self):
        return np.array(self).__reduce__()


# what numpy's scores are stored as, by numpy 1 and 2
_OF_NUMPY: list[Any] = [
    (Inert, "numpy.dtype"),
    (Array, "numpy.ndarray"),
    *(
        (substitute, f"numpy.{core}.multiarray.{name}")
        for core in ("core", "_core")
        for substitute, name in ((number, "scalar"), (Array, "_reconstruct"))
    ),
]


_SUBSTITUTES = [
    *_OF_NUMPY,
    (Inert, "argparse.Namespace"),
    # fairseq before 0.9 kept them in extra_state
    *((Inert, f"fairseq.meters.{name}Meter") for name in ("Average", "Stopwatch", "Time")),
]
_OF_TORCH = re.compile(
    r"torch\.(Size|_utils\._rebuild_(tensor|tensor_v2|parameter)"
    r"|(Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool)Storage)"
    r"|collections\.OrderedDict|_codecs\.encode"
)
_lock = threading.Lock()  # torch's list of allowed globals belongs to the whole process


@contextlib.contextmanager
def _allowed(substitutes: list[Any]) -> Iterator[None]:
    """Let torch.load read these names, and what others have allowed under other names.

    Of a name that is allowed twice, torch takes either one.
    """
    names = {name for _, name in substitutes}
    with _lock:
        before = torch.serialization.get_safe_globals()
        torch.serialization.clear_safe_globals()
        kept = [x for x in before if _name_of(x) not in names]
        try:
            with torch.serialization.safe_globals([*substitutes, *kept]):
                yield
        finally:
            torch.serialization.add_safe_globals(before)


def _name_of(entry: Any) -> str:
    is_named = isinstance(entry, tuple)
    return entry[1] if is_named else f"{entry.__module__}.{entry.__qualname__}"


def allowed_for_fairseq() -> contextlib.AbstractContextManager[None]:
    """Lets torch.load read what fairseq-train writes; also a decorator."""
    return _allowed([*_OF_NUMPY, (argparse.Namespace, "argparse.Namespace")])


@dataclass(frozen=True)
class Checkpoint:
    """What is used of a checkpoint."""

    options: dict[str, Any]  # all of the file, unchecked: use them through ``checked_options``
    tensors: dict[str, Tensor]  # the state dict of the model
    updates: int | None  # after how many it was written, if it says so


def read(path: str | os.PathLike[str], finite: bool = True) -> Checkpoint:
    """Read a checkpoint of fairseq or of the TUPE authors, in either format of ``torch.save``.

    ``finite``: refuse weights that are NaN or infinite.
    """
    path = os.fspath(path)
    if not os.path.isfile(path):  # maybe a pipe, which would be waited for forever
        raise FileNotFoundError(f"{path} does not exist, or is no file; give a checkpoint")
    try:
        with open(path, "rb") as file:
            _check_names(file)
        state = _load(path)
    except CheckpointError as error:
        raise CheckpointError(f"{path} is refused: {error}") from None
    except Exception as error:  # a damaged pickle can raise anything
        # torch's advice to try weights_only=False must not reach a user
        reason = str(error).partition("WeightsUnpickler error: ")[2] or str(error)
        reason = f"{type(error).__name__}: {reason.strip().partition(chr(10))[0][:200]}"
        message = f"{path} is truncated, damaged or not a checkpoint: {reason}"
        raise CheckpointError(message) from None
    tensors = state.get("model") if type(state) is dict else None
    options = _options(state) if isinstance(tensors, dict) else None
    if not options:
        raise CheckpointError(f"{path} holds no model with options: it is no fairseq checkpoint")
    tensors = check_tensors(tensors, path, finite)
    history = state.get("optimizer_history")
    last = history[-1] if type(history) is list and history else None
    updates = last.get("num_updates") if type(last) is dict else None
    return Checkpoint(options, tensors, updates if type(updates) is int else None)


def _check_names(file: BinaryIO) -> None:
    """Refuse a pickle that names anything not listed above, and an archive that is damaged."""
    if file.read(4) != b"PK\x03\x04":  # before torch 1.6: five pickles, then the weights
        file.seek(0)
        for _ in range(5):
            _check_pickle(file)
        return
    with zipfile.ZipFile(file) as archive:
        damaged = archive.testzip()  # torch looks at no checksum
        pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if damaged or len(pickles) != 1:
            raise ValueError(f"the archive's {damaged or 'data.pkl'} is damaged")
        with archive.open(pickles[0]) as data:
            _check_pickle(data)


def _check_pickle(file: Any) -> None:
    substitutes = {name for _, name in _SUBSTITUTES}
    for instruction, argument, _ in pickletools.genops(file):
        if instruction.name == "GLOBAL":
            name = argument.replace(" ", ".", 1)
            if name not in substitutes and not _OF_TORCH.fullmatch(name):
                raise CheckpointError(f"it asks for {name[:100]}, which no checkpoint needs")


def _load(path: str) -> Any:
    with _allowed(_SUBSTITUTES):
        # not mapped into memory: there torch checks no storage's length
        return torch.load(path, map_location="cpu", weights_only=True)


def check_tensors(tensors: dict[Any, Any], path: str, finite: bool = True) -> dict[str, Tensor]:
    """A state dict whose entries are weights, or integers whose name says "version"."""
    checked: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if type(name) is not str or type(value) not in (Tensor, torch.nn.Parameter):
            kind = type(value).__name__
            raise CheckpointError(f"{path}: {str(name)[:99]!r} in its model is a {kind}, no tensor")
        tensor = Tensor.detach(value)  # without hooks or attributes that the file has set
        is_weight = tensor.is_floating_point() and tensor.dim() > 0 and tensor.numel() > 0
        if not is_weight and "version" not in name:
            kind = f"{tensor.dtype} {list(tensor.shape)}"
            raise CheckpointError(f"{path}: the tensor {name} is {kind}, no weight")
        checked[name] = tensor
    if finite:
        check_finite(checked, path)
    return checked


def check_finite(tensors: dict[str, Tensor], path: str) -> None:
    """Refuse weights that are NaN or infinite."""
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise CheckpointError(
                f"{path}: the tensor {name} holds NaN or infinity: its training diverged, or the "
                "file is damaged"
            )


def _options(state: dict[str, Any]) -> dict[str, Any]:
    """The options of the model and, of a Hydra run, also those of its task and criterion."""
    options, config = state.get("args"), state.get("cfg")
    if options is None and type(config) is dict:  # fairseq since 0.10
        options = config.get("model")
        if type(options) is dict and options:  # a Hydra run
            options = {**options, "arch": options.get("_name")}
            for name in ("criterion", "task"):
                part = config.get(name)
                if type(part) is dict:
                    options = {**part, **options, name: part.get("_name")}
    options = options.attributes if type(options) is Inert else options
    of_text = options.items() if type(options) is dict else ()
    return {name: value for name, value in of_text if type(name) is str}


@contextlib.contextmanager
def loading(path: str) -> Iterator[None]:
    """Turn what torch and the model say of weights and options into a line that names the file."""
    try:
        yield
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError) and path in str(error):
            raise
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path} cannot be loaded: {reason}") from None
