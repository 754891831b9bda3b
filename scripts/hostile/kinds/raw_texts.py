"""Raw text, plain, compressed and in rows, for tupe-prepare-pretrain; and for the other readers."""

import bz2
import gzip
import json
import lzma
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from case import REFUSED, VALUE, Case, replaced
from damage import DEEP, flips

KIND = "text"


def cases(scenes: Path, draw: random.Random) -> Iterator[Case]:
    """The commands take any text; what is not text, or cut short, is refused or counted."""
    sound = (scenes / "text" / "in.txt").read_bytes()
    for name, content in _texts(sound, draw).items():
        for reader, scene in (
            ("prepare-pretrain", "text"), ("encode", "pretrained"), ("score", "pretrained"),
            ("score --lengths", "pretrained"),
        ):  # fmt: skip
            right = REFUSED if name == "empty" else VALUE
            yield Case(KIND, name, scene, replaced("in.txt", content), (reader,), right)
    yield Case(
        KIND, "a vocabulary of few words", "text", replaced("in.txt", b"a b\n" * 30),
        ("prepare-pretrain --vocab-size",), REFUSED,
    )  # fmt: skip
    for name, content in _compressed(sound, draw).items():
        for ending in ("gz", "xz", "bz2"):
            if name.startswith(ending):
                reader, change = f"prepare-pretrain {ending}", replaced(f"in.txt.{ending}", content)
                yield Case(KIND, name, "text", change, (reader,), VALUE)
    rows = (scenes / "text" / "in.jsonl").read_bytes()
    for name, content in _rows(rows).items():
        change = replaced("in.jsonl", content)
        yield Case(KIND, f"rows: {name}", "text", change, ("prepare-pretrain rows",), VALUE)
    for name, make in _NO_FILES.items():
        for reader, scene in (("prepare-pretrain", "text"), ("encode", "pretrained")):
            yield Case(KIND, name, scene, make, (reader,), REFUSED)


def _texts(sound: bytes, draw: random.Random) -> dict[str, bytes]:
    return {
        "empty": b"",
        "newlines alone": b"\n" * 100_000,
        "zero bytes": bytes(5000),
        "any bytes": bytes(draw.randrange(256) for _ in range(4_000)),
        "in UTF-16": sound.decode().encode("utf-16"),
        "half of it no UTF-8": sound + b"\xff\xfe caf\xe9\n" * 200,
        "one line of 5 MB": b"word " * 1_000_000,
        "one word of 5 MB": b"w" * 5_000_000,
        "combining marks": ("a" + "\u0301" * 100_000 + "\n").encode() + sound,
        "surrogates": sound + b"\xed\xa0\x80\xed\xb0\x80\n",
        "the symbols of fairseq": sound + b"<s> </s> <pad> <unk> <mask>\n" * 20,
        "the first bytes of gzip": b"\x1f\x8b" + sound,
        "the first bytes of an archive": b"PK\x03\x04" + sound,
        "directions and escapes": sound + "\u202e\x1b[2J\u2066\n".encode(),
        "4,000 lines": b"".join(b"Line %d is here.\n" % n for n in range(4_000)),
        "one line 4,000 times": b"The same line.\n" * 4_000,
    }


def _compressed(sound: bytes, draw: random.Random) -> dict[str, bytes]:
    letters = b"a" * 2**20
    found = {}
    for ending, module in (("gz", gzip), ("xz", lzma), ("bz2", bz2)):
        whole = module.compress(sound)
        found.update({
            f"{ending} cut": whole[: len(whole) // 2],
            f"{ending} without its last bytes": whole[:-4],
            f"{ending} and more": whole + b"more",
            f"{ending} of a text that is not": sound,
            f"{ending} empty": b"",
            f"{ending} in itself": module.compress(whole),
            f"{ending} twice": whole + whole,
            **{f"{ending} {name}": content for name, content in flips(whole, 3, draw)},
        })  # fmt: skip
    # a gigabyte in a few megabytes; it must not be held in memory
    found["gz of a gigabyte in one line"] = gzip.compress(letters, 1) * 1024
    found["xz of 100 MB of lines"] = lzma.compress(b"A line of the text.\n" * 5_000_000, preset=0)
    return found


def _rows(sound: bytes) -> dict[str, bytes]:
    values = (None, 1, 2.5, True, [], {}, ["a"], "", "\x00", "\ud800", "x" * 2_000_000)
    odd = {
        f"a text {value!r:.20}": sound + json.dumps({"text": value}).encode() + b"\n"
        for value in values
    }
    return {
        **odd,
        "deep": sound + DEEP.encode() + b"\n",
        "no field": sound + b'{"other": "x"}\n',
        "a list": sound + b'["x"]\n',
        "cut": sound[:-9],
        "no UTF-8": sound + b'{"text": "\xff"}\n',
        "in UTF-16": sound.decode().encode("utf-16"),
        "an array": b"[" + sound.replace(b"\n", b",")[:-1] + b"]",
    }


def _special(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        (folder / "in.txt").unlink()
        make(folder / "in.txt")

    return change


_NO_FILES = {
    "a folder": _special(Path.mkdir),
    "a pipe": _special(os.mkfifo),
    "a link to nothing": _special(lambda path: path.symlink_to("nowhere")),
    "a link to itself": _special(lambda path: path.symlink_to(path.name)),
    "a device": _special(lambda path: path.symlink_to("/dev/zero")),
}
