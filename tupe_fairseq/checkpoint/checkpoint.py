"""Reads a checkpoint of fairseq or of the TUPE authors without running any code from it.

``torch.load(weights_only=True)`` reads the file (torch >= 2.10: CVE-2026-24747). We add three
things. The pickle may only name what fairseq writes: torch allows more, such as sparse tensors,
whose indices it does not check. Every class that is not torch's is replaced with an inert one. And
only plain numbers, strings and dense tensors are returned.
"""

import argparse
import contextlib
import hashlib
import io
import os
import pickletools
import re
import struct
import threading
import zipfile
from collections.abc import Iterable, Iterator
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
VOCABULARY_HASH = "encoder.vocabulary_version"
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
    """A hash of a dictionary's tokens, int64 (); tells vocabularies of the same size apart."""
    digest = hashlib.sha256("\n".join(symbols).encode()).digest()
    # 48 bits, so that the sum does not overflow if many checkpoints are averaged
    return torch.tensor(int.from_bytes(digest[:6], "big"))


# ---- Reading ------------------------------------------------------------------------------------


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message names the file and says why."""


class Inert:
    """Replaces an object of any class that is not torch's: keeps its attributes, does nothing."""

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
    """Replaces numpy's ``scalar``: a real dtype takes flags, and so addresses, from the file."""
    (value,) = _unpack(dtype, content)
    return value


class Array(np.ndarray):
    """Replaces numpy's arrays, such as the counts of --eval-bleu. Float64; pickled as np.array."""

    def __new__(cls, *args):
        return super().__new__(cls, 0)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, is_fortran, content = state
        values = np.reshape(_unpack(dtype, content), shape, order="F" if is_fortran else "C")
        self.resize(shape, refcheck=False)
        self[...] = values

    def __reduce__(self):
        return np.array(self).__reduce__()


# the names under which numpy 1 and 2 store scores
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
_lock = threading.Lock()  # the whole process shares torch's list of allowed globals


@contextlib.contextmanager
def _allowed(substitutes: list[Any]) -> Iterator[None]:
    """Let torch.load read these names, and other names that are already allowed.

    If a name is allowed twice, torch may take either entry.
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
    """Let torch.load read what fairseq-train writes; also works as a decorator."""
    return _allowed([*_OF_NUMPY, (argparse.Namespace, "argparse.Namespace")])


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor], int | None]:
    """The options, the state dict and the number of updates of a checkpoint.

    It is of fairseq or of the TUPE authors, in either format of ``torch.save``. The options are as
    in the file: use them through ``checked_options``. Weights may be NaN, see ``check_finite``.
    """
    path = os.fspath(path)
    if not os.path.isfile(path):  # reading a pipe could block forever
        raise FileNotFoundError(f"{path} does not exist, or is not a file; give a checkpoint")
    try:
        with open(path, "rb") as file:
            _check_names(file)
        state = _load(path)
    except CheckpointError as error:
        raise CheckpointError(f"{path} is refused: {error}") from None
    except Exception as error:  # a damaged pickle can raise anything
        message = f"{path} is truncated, damaged or not a checkpoint: {reason_of(error)}"
        raise CheckpointError(message) from None
    tensors = state.get("model") if type(state) is dict else None
    options = _options(state) if isinstance(tensors, dict) else None
    if not options:
        raise CheckpointError(f"{path} has no model with options: it is no fairseq checkpoint")
    tensors = check_tensors(tensors, path)
    history = state.get("optimizer_history")
    last = history[-1] if type(history) is list and history else None
    updates = last.get("num_updates") if type(last) is dict else None
    return options, tensors, updates if type(updates) is int else None


def reason_of(error: Exception) -> str:
    """An error of ``torch.load`` in a line, without its advice to load the file as code."""
    reason = str(error).partition("WeightsUnpickler error: ")[2] or str(error)
    lines = [line for line in reason.splitlines() if line.strip() and "weights_only" not in line]
    return f"{type(error).__name__}: {''.join(lines[:1]).strip()[:200]}"


def _check_names(file: BinaryIO) -> None:
    """Refuse a pickle that names anything not listed above, and a damaged archive."""
    if file.read(4) != b"PK\x03\x04":  # before torch 1.6: five pickles, then the weights
        file.seek(0)
        for _ in range(5):
            _check_pickle(file)
        return
    with zipfile.ZipFile(file) as archive:
        damaged = archive.testzip()  # torch does not check the checksums
    if damaged:
        raise ValueError(f"the archive's {damaged} is damaged")
    file.seek(0)
    # torch's own reader, which ignores case, finds the pickle that it loads
    _check_pickle(io.BytesIO(torch._C.PyTorchFileReader(file).get_record("data.pkl")))


def _check_pickle(file: Any) -> None:
    substitutes = {name for _, name in _SUBSTITUTES}
    for instruction, argument, _ in pickletools.genops(file):
        if instruction.name == "GLOBAL":
            name = argument.replace(" ", ".", 1)
            if name not in substitutes and not _OF_TORCH.fullmatch(name):
                raise CheckpointError(f"it asks for {name[:100]}, which no checkpoint needs")


def _load(path: str) -> Any:
    with _allowed(_SUBSTITUTES):
        # without mmap, with which torch does not check the lengths of storages
        return torch.load(path, map_location="cpu", weights_only=True)


def check_tensors(tensors: dict[Any, Any], path: str) -> dict[str, Tensor]:
    """A state dict whose entries are weights, or integers whose name says "version"."""
    checked: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if type(name) is not str or type(value) not in (Tensor, torch.nn.Parameter):
            kind = type(value).__name__
            raise CheckpointError(f"{path}: {str(name)[:99]!r} in its model is a {kind}, no tensor")
        tensor = Tensor.detach(value)  # drops hooks and attributes that the file has set
        if tensor.layout is not torch.strided:
            raise CheckpointError(f"{path}: the tensor {name} is {tensor.layout}, not dense")
        is_weight = tensor.is_floating_point() and tensor.dim() > 0 and tensor.numel() > 0
        if not is_weight and "version" not in name:
            kind = f"{tensor.dtype} {list(tensor.shape)}"
            raise CheckpointError(f"{path}: the tensor {name} is {kind}, not a weight")
        checked[name] = tensor
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
    """The options of the model and, in a Hydra run, also those of its task, data and bpe."""
    options, config = state.get("args"), state.get("cfg")
    if options is None and type(config) is dict:  # fairseq since 0.10
        options = config.get("model")
        if type(options) is dict and options:  # a Hydra run
            options = {**options, "arch": options.get("_name")}
            for name in ("criterion", "task", "dataset", "bpe", "tokenizer"):
                part = config.get(name)
                if type(part) is dict:
                    options = {**part, **options, name: part.get("_name")}
    options = options.attributes if type(options) is Inert else options
    items = options.items() if type(options) is dict else ()
    return {name: value for name, value in items if type(name) is str}


@contextlib.contextmanager
def loading(path: str) -> Iterator[None]:
    """Turn errors about weights and options into one line that names the file."""
    try:
        yield
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError) and path in str(error):
            raise
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path} cannot be loaded: {reason}") from None
