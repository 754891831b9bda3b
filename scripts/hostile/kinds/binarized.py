"""fairseq's binarized data: indices that claim too much, tokens of no word, labels of no class."""

import random
import struct
from collections.abc import Iterator
from pathlib import Path

from case import REFUSED, SAME, VALUE, Case, replaced
from damage import cuts, flips, no_such_file, thinned

KIND = "binarized data"
_HEADER = 9 + 8 + 1 + 8


def cases(scenes: Path, draw: random.Random) -> Iterator[Case]:
    """Of sentences and labels that tupe-finetune checks, tupe-plot draws and fairseq trains on."""
    for place in ("RTE/input0/train", "RTE/input1/valid", "RTE/label/train", "RTE/label/valid"):
        sound = (scenes / "finished" / f"{place}.idx").read_bytes()
        for name, content in _indices(sound).items():
            yield _case(f"{place}.idx: {name}", f"{place}.idx", content, REFUSED)
        for name, content in thinned(list(cuts(sound, (0, 9, 17, 18, _HEADER, 40))), 5, draw):
            yield _case(f"{place}.idx: {name}", f"{place}.idx", content, REFUSED)
        for name, content in flips(sound, 4, draw):
            yield _case(f"{place}.idx: {name}", f"{place}.idx", content, SAME)
        for name, content, _ in no_such_file(sound):
            yield _case(f"{place}.idx: {name}", f"{place}.idx", content, REFUSED)
        tokens = (scenes / "finished" / f"{place}.bin").read_bytes()
        for name, content in (("cut by one", tokens[:-1]), ("cut by a token", tokens[:-4]),
                              ("empty", b""), ("a token more", tokens + bytes(4))):  # fmt: skip
            yield _case(f"{place}.bin: {name}", f"{place}.bin", content, REFUSED)
        for value in (-1, 0, 1, 2, 3, 2**31 - 1, -(2**31), 1000):
            content = struct.pack("<i", value) + tokens[4:]
            # words are read when training begins; the share of a class is counted before
            right = VALUE if "input" in place else REFUSED
            yield _case(f"{place}.bin: a token {value}", f"{place}.bin", content, right)
    for place in ("data/valid", "data/train"):
        yield from _of_fairseq(scenes, place, draw)


def _case(name: str, place: str, content: bytes, right: str) -> Case:
    readers = ("finetune --dry-run",)
    return Case(KIND, name, "finished", replaced(place, content), readers, right)


def _of_fairseq(scenes: Path, place: str, draw: random.Random) -> Iterator[Case]:
    """tupe-plot reads valid; fairseq-train reads train by its own code."""
    reader = "plot" if place.endswith("valid") else "fairseq-train"
    sound = (scenes / "pretrained" / f"{place}.idx").read_bytes()
    for name, content in _indices(sound).items():
        change = replaced(f"{place}.idx", content)
        right = REFUSED if reader == "plot" else VALUE  # fairseq looks at no sizes
        yield Case(KIND, f"{place}.idx: {name}", "pretrained", change, (reader,), right)
    tokens = (scenes / "pretrained" / f"{place}.bin").read_bytes()
    for value in (-1, 1000, 2**31 - 1):
        change = replaced(f"{place}.bin", struct.pack("<i", value) + tokens[4:])
        yield Case(KIND, f"{place}.bin: a token {value}", "pretrained", change, (reader,), (
            REFUSED if reader == "plot" else VALUE))  # fmt: skip
    change = replaced(f"{place}.bin", tokens[: len(tokens) // 2])
    yield Case(KIND, f"{place}.bin: cut to a half", "pretrained", change, (reader,), REFUSED)


def _indices(sound: bytes) -> dict[str, bytes]:
    """An index whose header or sizes claim something else."""
    count = struct.unpack_from("<Q", sound, 18)[0]

    def changed(place: int, form: str, value: int) -> bytes:
        content = bytearray(sound)
        struct.pack_into(form, content, place, value)
        return bytes(content)

    offsets = _HEADER + 4 * count
    return {
        "another magic": b"TNTIDX\x00\x00\x00" + sound[9:],
        "code 0": changed(17, "<B", 0),
        "code 99": changed(17, "<B", 99),
        "code of float": changed(17, "<B", 6),
        "code of int64": changed(17, "<B", 5),
        "no sentences": changed(18, "<Q", 0),
        "a sentence more": changed(18, "<Q", count + 1),
        "2^40 sentences": changed(18, "<Q", 2**40),
        "2^63 sentences": changed(18, "<Q", 2**63),
        "a length of -1": changed(_HEADER, "<i", -1),
        "a length of 0": changed(_HEADER, "<i", 0),
        "a length of 2^31 - 1": changed(_HEADER, "<i", 2**31 - 1),
        "an offset of -8": changed(offsets, "<q", -8),
        "an offset of 2^62": changed(offsets, "<q", 2**62),
        "an odd offset": changed(offsets + 8, "<q", 3),
    }
