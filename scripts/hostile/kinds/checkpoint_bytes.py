"""Checkpoints whose bytes are damaged: bits, ends, and the tables of the archive."""

import io
import random
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import torch
from case import REFUSED, SAME, VALUE, Case, replaced
from damage import cuts, flips, no_such_file, thinned

KIND = "checkpoint bytes"
# in turn, so that each reader has its share
_OURS = (
    ("encode",), ("score",), ("TupeRobertaModel",), ("export",), ("RobertaModel",), ("extend",),
)  # fmt: skip
_THEIRS = (("authors", "convert"), ("stock", "convert --untie"))


def cases(scenes: Path, draw: random.Random) -> Iterator[Case]:
    """Of our own checkpoints in both of torch's formats, and of those that are converted."""
    sound = (scenes / "pretrained" / "model.pt").read_bytes()
    number = 0
    for name, content, right in _damaged(sound, draw, 40):
        readers = _OURS[number % len(_OURS)]
        number += 1
        if readers == ("RobertaModel",) and right == SAME:
            right = VALUE  # torch.load looks at no checksum
        yield Case(KIND, name, "pretrained", replaced("model.pt", content), readers, right)
    fine = (scenes / "fine-tuned" / "model" / "checkpoint_best.pt").read_bytes()
    for name, content, right in _damaged(fine, draw, 8):
        change = replaced("model/checkpoint_best.pt", content)
        yield Case(KIND, name, "fine-tuned", change, ("predict",), right)
    for scene, reader in _THEIRS:
        theirs = (scenes / scene / "theirs.pt").read_bytes()
        for name, content, right in _damaged(theirs, draw, 8):
            yield Case(KIND, name, scene, replaced("theirs.pt", content), (reader,), right)
    old = _in_the_old_format(sound)
    for name, content, right in _damaged_old(old, draw):
        yield Case(
            KIND, f"old format: {name}", "pretrained", replaced("model.pt", content), ("encode",),
            right,
        )  # fmt: skip
    yield from _tables(sound)
    for flag in ("--restore-file", "--finetune-from-model"):
        for name, content in (("cut to a half", sound[: len(sound) // 2]), ("empty", b"")):
            reader = f"fairseq-train {flag}"
            yield Case(KIND, name, "pretrained", replaced("model.pt", content), (reader,), REFUSED)


def _damaged(content: bytes, draw: random.Random, count: int) -> Iterator:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        entries = file.infolist()
        boundaries = [entry.header_offset for entry in entries]
        table, pickled = file.start_dir, file.getinfo(_pickle_name(file)).header_offset
    ends = thinned(list(cuts(content, [*boundaries, table, len(content) - 22])), count, draw)
    for name, cut in ends:
        yield name, cut, REFUSED
    for name, changed in flips(content, count, draw):
        yield name, changed, SAME
    for name, changed in flips(content[table:], count // 2, draw):
        yield f"in the table, {name}", content[:table] + changed, SAME
    for name, changed in flips(content[pickled : pickled + 3000], count // 2, draw):
        yield (
            f"in the pickle, {name}",
            content[:pickled] + changed + content[pickled + 3000 :],
            SAME,
        )
    for name, changed, right in no_such_file(content):
        yield name, changed, right


def _damaged_old(content: bytes, draw: random.Random) -> Iterator:
    for name, cut in thinned(list(cuts(content, range(0, len(content), 997))), 12, draw):
        yield name, cut, REFUSED
    for name, changed in flips(content, 20, draw):
        yield name, changed, VALUE  # it has no checksums: a weight is another one
    yield "something behind it", content + b"\0" * 9, SAME


def _tables(content: bytes) -> Iterator[Case]:
    """What the archive's tables claim, which no pickle says."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        names = {entry.filename: file.read(entry) for entry in file.infolist()}
        table = file.start_dir
        pickle_name = _pickle_name(file)
    last = content.rfind(b"PK\x05\x06")
    claims = {
        "more entries than there are": (last + 10, struct.pack("<H", 65535)),
        "no entries": (last + 10, struct.pack("<H", 0)),
        "a table beyond the end": (last + 16, struct.pack("<I", 2**31)),
        "a table of four gigabytes": (last + 12, struct.pack("<I", 2**32 - 1)),
        "an entry of four gigabytes": (table + 24, struct.pack("<I", 2**32 - 2)),
        "an entry before the file": (table + 42, struct.pack("<I", 2**32 - 2)),
        "an unknown compression": (table + 10, struct.pack("<H", 97)),
        "encrypted": (table + 8, struct.pack("<H", 1)),
    }
    for name, (place, value) in claims.items():
        changed = content[:place] + value + content[place + len(value) :]
        yield Case(
            KIND, name, "pretrained", replaced("model.pt", changed), ("score", "export"), SAME
        )
    others = {
        "an entry twice": [*names.items(), (pickle_name, b"\x80\x02}.")],
        "an entry above its folder": [*names.items(), ("../../above", b"x")],
        "an entry at the root": [*names.items(), ("/tmp-of-hostile", b"x")],
        "no data": [(pickle_name, names[pickle_name])],
        "no pickle": [pair for pair in names.items() if pair[0] != pickle_name],
    }
    for name, entries in others.items():
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w") as file:
            for entry, value in entries:
                file.writestr(entry, value)
        change = replaced("model.pt", target.getvalue())
        yield Case(KIND, name, "pretrained", change, ("encode", "TupeRobertaModel"), SAME)


def _pickle_name(file: zipfile.ZipFile) -> str:
    return next(name for name in file.namelist() if name.endswith("/data.pkl"))


def _in_the_old_format(content: bytes) -> bytes:
    target = io.BytesIO()
    state = _loaded(content)
    torch.save(state, target, _use_new_zipfile_serialization=False)
    return target.getvalue()


def _loaded(content: bytes):
    kwargs = {"weights_only": False} if hasattr(torch.serialization, "add_safe_globals") else {}
    return torch.load(io.BytesIO(content), **kwargs)  # it is of our own making
