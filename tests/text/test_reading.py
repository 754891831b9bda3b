"""Reading plain and compressed text in blocks."""

import bz2
import gzip
import lzma
import os

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


@pytest.mark.parametrize("suffix", ["gz", "xz", "bz2"])
@pytest.mark.parametrize(
    "rest", [b"x", b"garbage " * 1000, b"\0\0\0\0x", b"\xfd7zXZ"], ids=["x", "long", "zeros", "xz"]
)
def test_something_else_after_the_end(suffix, rest, tmp_path):
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(COMPRESSIONS[suffix](b"some text\n") + rest)
    with pytest.raises((ValueError, OSError), match=f"a.{suffix} (is damaged|cannot be read)"):
        list(TextFile(str(path)).blocks())


@pytest.mark.parametrize("suffix", ["gz", "xz", "bz2"])
@pytest.mark.parametrize("between", [b"", bytes(4), bytes(100_000)], ids=len)
def test_several_streams(suffix, between, tmp_path):
    """As parallel compressors write them; zeros may stand between."""
    path = tmp_path / f"a.{suffix}"
    stream = COMPRESSIONS[suffix]
    path.write_bytes(stream(b"one\n") + between + stream(b"") + stream(b"two\n") + between)
    assert b"".join(TextFile(str(path)).blocks()) == b"one\ntwo\n"


def test_not_compressed_as_named(tmp_path):
    (tmp_path / "a.gz").write_bytes(b"plain text\n")
    with pytest.raises(ValueError, match="a.gz is not compressed as its name says"):
        TextFile(str(tmp_path / "a.gz"))


def test_folder(tmp_path):
    with pytest.raises(ValueError, match="is not a file"):
        TextFile(str(tmp_path))


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a")
    with pytest.raises(ValueError, match="is not a file"):
        TextFile(str(tmp_path / "a"))


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
