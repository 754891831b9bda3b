"""Checkpoints whose pickle calls out, or claims what is not there, and archives that swell."""

import argparse
import copy
import io
import os
import pickle
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from case import CANARY, REFUSED, Case

from helpers.crafted import Touch, a_dict, a_global, a_tensor, archive, legacy, number, text
from kinds.checkpoint_bytes import _loaded

KIND = "checkpoint pickle"
_ALL = (
    "encode", "score", "TupeRobertaModel", "export", "finetune --dry-run", "plot", "extend",
)  # fmt: skip
_EMPTY = b")"
_NAMESPACE = a_global("argparse", "Namespace")
_STATE = b"}" + text("poisoned") + b"\x88s"
# what a pickle may call that does harm, with the arguments that would do it
_CALLS = {
    "os.mkdir": a_global("os", "mkdir") + text(CANARY) + b"\x85R",
    "posix.mkdir": a_global("posix", "mkdir") + text(CANARY) + b"\x85R",
    "eval": a_global("builtins", "eval") + text(f"__import__('os').mkdir('{CANARY}')") + b"\x85R",
    "exec of Python 2": a_global("__builtin__", "exec") + text("1") + b"\x85R",
    "getattr": a_global("builtins", "getattr") + text("x") + text("y") + b"\x86R",
    "torch.load": a_global("torch", "load") + text("model.pt") + b"\x85R",
    "numpy.load": a_global("numpy", "load") + text("x") + b"\x85R",
    "a class of fairseq": a_global("fairseq.models.fconv", "FConvModel") + _EMPTY + b"R",
    "a class of ours": a_global("tupe_fairseq.config", "TupeConfig") + _EMPTY + b"R",
    "by inst": b"(" + text(CANARY) + b"ios\nmkdir\n",
    "by obj": b"(" + a_global("os", "mkdir") + text(CANARY) + b"o",
    "by stack_global": text("os") + text("mkdir") + b"\x93" + text(CANARY) + b"\x85R",
    "by newobj_ex": _NAMESPACE + _EMPTY + b"}\x92",
    "by an extension": b"\x82\x01",
    "a class changed": _NAMESPACE + _STATE + b"b",
    "a class changed by __setstate__": _NAMESPACE + b"}" + text("__setstate__") + b"Nsb",
    "a function changed": a_global("torch._utils", "_rebuild_tensor") + _STATE + b"b",
    "a tensor changed": a_tensor(1, [1], [1]) + _STATE + b"b",
    "a name with a dot": a_global("argparse", "Namespace.__init__"),
    "a rebuild that is called with itself": a_global("torch._utils", "_rebuild_tensor_v2")
    + a_global("torch._utils", "_rebuild_tensor_v2") + b"\x85R",
}  # fmt: skip
_TENSORS = {
    "2^31 over one": a_tensor(1, [2**31], [0]),
    "three sizes of 2^20": a_tensor(1, [2**20] * 3, [0, 0, 0]),
    "more than there are": a_tensor(1, [2], [1]),
    "beyond the end": a_tensor(1, [1], [1], offset=1),
    "a wide step": a_tensor(1, [2], [2**62]),
    "a negative size": a_tensor(1, [-1], [1]),
    "a negative offset": a_tensor(1, [1], [1], offset=-1),
    "a size of 70 bits": a_tensor(1, [2**70], [1]),
    "more steps than sizes": a_tensor(1, [1], [1, 1]),
    "a storage of 2^40": a_tensor(2**40, [1], [1]),
    "a storage of -1": a_tensor(-1, [1], [1]),
    "another type": a_tensor(1, [1], [1], kind="DoubleStorage"),
    "a storage elsewhere": a_tensor(1, [1], [1], key="../data.pkl"),
    "a storage of a path": a_tensor(1, [1], [1], key="/etc/passwd"),
}
_KEYS = {
    "a long number": number(2**70), "a float": number(1.5), "a tuple": b")", "None": b"N",
    "a tensor": a_tensor(1, [1], [1]),
}  # fmt: skip


def cases(scenes: Path, draw: random.Random) -> Iterator[Case]:
    """Calls in each slot of a sound state; pickles by hand; archives that swell."""
    sound = _loaded((scenes / "pretrained" / "model.pt").read_bytes())
    turn = 0

    def readers(count: int = 1):
        nonlocal turn
        turn += count
        return tuple(_ALL[(turn + more) % len(_ALL)] for more in range(count))

    for name, state in _slots(sound):
        for zipped in (True, False):
            form = "zip" if zipped else "old format"

            def write(path, state=state, zipped=zipped):
                torch.save(state, path, _use_new_zipfile_serialization=zipped)

            of_fairseq = ["RobertaModel"] if zipped else []  # fairseq's own
            for reader in (*readers(2), *of_fairseq):
                yield _case(f"a call in {name}, {form}", reader, write)
    for kind, by_hand in (("calls", _CALLS), ("tensor", _TENSORS)):
        for name, content in by_hand.items():
            for form in (archive, legacy):
                yield _case(f"{kind}: {name}, {form.__name__}", readers()[0], _hand(form, content))
    for name, key in _KEYS.items():

        def write(path, key=key):
            archive(path, b"\x80\x02}" + key + b"\x88s.", {"0": bytes(4)})

        yield _case(f"a key that is {name}", readers()[0], write)
    for name, write in _bombs().items():
        for reader in readers(2):
            yield _case(name, reader, write)
    for reader in ("fairseq-train --restore-file", "fairseq-train --finetune-from-model"):
        state = {**sound, "extra_state": Touch(CANARY)}
        yield _case("a call in extra_state", reader, lambda path, s=state: torch.save(s, path))


def _case(name: str, reader: str, write: Callable) -> Case:
    scene, place = ("finished" if reader.startswith("finetune") else "pretrained"), "model.pt"
    return Case(KIND, name, scene, lambda folder: write(folder / place), (reader,), REFUSED)


def _slots(sound: dict) -> Iterator:
    """The state with a call in each of its places: values, keys, options, tensors, and nested."""
    for name in ("args", "cfg", "model", "optimizer_history", "extra_state", "new"):
        yield f"{name}", {**sound, name: Touch(CANARY)}
    yield "a key", {**sound, _Called(): 1}
    options = copy.copy(sound["cfg"]["model"])
    options.activation_fn = Touch(CANARY)
    yield "an option", {**sound, "cfg": {"model": options}}
    yield "the options", {**sound, "cfg": {"model": _Options()}}
    model = sound["model"]
    yield "a tensor", {**sound, "model": {**model, "encoder.more": Touch(CANARY)}}
    yield "a tensor's name", {**sound, "model": {**model, _Called(): torch.ones(1)}}
    weight = torch.ones(2)
    yield "deep in a list", {**sound, "extra_state": [[[{"a": (1, [Touch(CANARY)])}]]]}
    yield "behind the tensors", {**sound, "zzz": [weight, Touch(CANARY)]}
    yield "a Namespace", {**sound, "args": argparse.Namespace(x=Touch(CANARY))}


class _Called:
    """As crafted.Touch, and can be a key."""

    def __reduce__(self):
        return os.mkdir, (CANARY,)


class _Options(argparse.Namespace):
    """A subclass, whose state is set by a call."""

    def __reduce__(self):
        return os.mkdir, (CANARY,)


def _hand(form: Callable, content: bytes) -> Callable:
    def write(path):
        if form is archive:
            return archive(path, a_dict(content), {"0": bytes(4)})
        return legacy(path, a_dict(content), ["0"], (1).to_bytes(8, "little") + bytes(4))

    return write


def _bombs() -> dict[str, Callable[[Path], Any]]:
    def swollen(entry: str) -> Callable[[Path], None]:
        def write(path: Path) -> None:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
                if entry != "data.pkl":
                    tensor = a_dict(a_tensor(2**28, [2**28], [1]))
                    file.writestr(zipfile.ZipInfo("a/data.pkl"), tensor)
                with file.open(f"a/{entry}", "w") as target:
                    for _ in range(1024):
                        target.write(b"]" * 2**20)

        return write

    def entries(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as file:
            for name in range(60_000):
                file.writestr(f"a/data/{name}", b"")

    def memo(path: Path) -> None:
        # each list holds the one before it twice
        content = b"]q\x00" + b"".join(
            b"(h" + bytes([n % 250]) + b"h" + bytes([n % 250]) + b"lq" + bytes([(n + 1) % 250])
            for n in range(240)
        )
        archive(path, b"\x80\x02}" + text("model") + content + b"s.")

    def shared(path: Path) -> None:
        archive(
            path, a_dict(b"(" + 300 * a_tensor(2**18, [2**18], [1]) + b"t"), {"0": bytes(2**20)}
        )

    return {
        "a pickle of a gigabyte": swollen("data.pkl"),
        "a storage of a gigabyte": swollen("data/0"),
        "60,000 entries": entries,
        "lists of lists of lists": memo,
        "a storage in 300 tensors": shared,
        "a pickle of 17 MB": lambda path: archive(path, b"\x80\x02" + b"N0" * (17 * 2**19)),
        "a text that claims 4 GB": lambda path: archive(
            path, b"\x80\x02}" + b"X\xff\xff\xff\xff" + b"a."
        ),
        "a number of 2^31 bytes": lambda path: archive(
            path, b"\x80\x02}" + b"\x8b\xff\xff\xff\x7f" + b"a."
        ),
        "a mark of 5 million": lambda path: archive(path, b"\x80\x02" + b"(" * 5_000_000 + b"."),
        "a plain pickle": lambda path: path.write_bytes(pickle.dumps(Touch(CANARY))),
        "a pickle of Python alone": lambda path: path.write_bytes(pickle.dumps({"model": {}})),
        "a TorchScript": _script,
    }


def _script(path: Path) -> None:
    target = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), target)
    path.write_bytes(target.getvalue())
