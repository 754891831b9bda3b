"""Reading plain and compressed text in blocks, and refusing what is not text."""

import bz2
import gzip
import lzma

import pytest

from tupe_fairseq.text import reading
from tupe_fairseq.text.reading import LINE_BYTES, TextFile

COMPRESSIONS = {"txt": bytes, "gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("named", [True, False], ids=["suffix", "no-suffix"])
def test_compressions(suffix, named, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 7)
    path = tmp_path / (f"a.{suffix}" if named else "a")
    text = b"one\n\nthe second line\nthree, without an end"
    path.write_bytes(COMPRESSIONS[suffix](text))
    file = TextFile(str(path))
    blocks = list(file.blocks())
    assert len(blocks) > 2
    assert all(block.endswith(b"\n") for block in blocks)
    assert b"".join(blocks) == text + b"\n"
    assert file.bytes_read == path.stat().st_size


def test_text_that_begins_like_bzip2(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"BZh is how it begins\n")
    assert list(TextFile(str(path)).blocks()) == [b"BZh is how it begins\n"]


@pytest.mark.parametrize("suffix", ["gz", "xz", "bz2"])
def test_cut_short(suffix, tmp_path):
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(COMPRESSIONS[suffix](bytes(range(32, 127)) * 3000)[:-20])
    with pytest.raises(ValueError, match=f"a.{suffix} is damaged or cut short"):
        list(TextFile(str(path)).blocks())


@pytest.mark.parametrize("suffix", ["gz", "xz", "bz2"])
def test_damaged(suffix, tmp_path):
    content = bytearray(COMPRESSIONS[suffix](" ".join(map(str, range(99999))).encode()))
    for i in range(len(content) // 2, len(content) // 2 + 40):
        content[i] ^= 0x5A
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(content)
    with pytest.raises((ValueError, OSError), match=f"a.{suffix} (is damaged|cannot be read)"):
        list(TextFile(str(path)).blocks())


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.gz", b"plain text\n", "a.gz is not compressed as its name says"),
        ("a.txt", b"PK\x03\x04....", "is a zip archive"),
        ("a.txt", b"\x28\xb5\x2f\xfd....", "is a zstd archive"),
        ("a.txt", "wörter\n".encode("utf-16"), "in UTF-16 or UTF-32"),
        ("a.txt", "plain words\n".encode("utf-16-le"), "has many zero bytes"),
    ],
    ids=["not-gzip", "zip", "zstd", "utf-16", "utf-16-without-mark"],
)
def test_refused(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(TextFile(str(path)).blocks())


def test_folder(tmp_path):
    with pytest.raises(ValueError, match="is not a file"):
        TextFile(str(tmp_path))


def test_endless_lines_are_skipped_without_being_held(tmp_path):
    path = tmp_path / "a.xz"
    with lzma.open(path, "wb", preset=0) as file:
        file.write(b"first\n")
        for _ in range(40):
            file.write(b"x" * (1 << 20))
        file.write(b"\nsecond\n" + b"y" * (LINE_BYTES * 2))
    text = TextFile(str(path))
    largest = 0
    lines = []
    for block in text.blocks():
        largest = max(largest, len(block))
        lines += block.splitlines()
    assert lines == [b"first", b"second"]
    assert text.too_long == 2
    assert largest <= LINE_BYTES + reading.BLOCK_BYTES
