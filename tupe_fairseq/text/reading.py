"""Reads text of any size, compressed or not, in blocks of whole lines and in bounded memory."""

import bz2
import gzip
import lzma
import os
import re
import zlib
from typing import Iterator

BLOCK_BYTES = 1 << 20
# Longer lines are skipped without being held in memory.
LINE_BYTES = 4 << 20

# a text could begin with bzip2's "BZh" alone
_OPENERS = {
    re.compile(rb"\x1f\x8b"): gzip.open,
    re.compile(rb"\xfd7zXZ\0"): lzma.open,
    re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"): bz2.open,
}
_SUFFIXES = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_UNKNOWN_ARCHIVES = {b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf": "7z"}


class TextFile:
    """A plain, .gz, .xz or .bz2 file of UTF-8 text.

    Args:
        path (str): the file.
    Raises:
        OSError: if it cannot be read.
        ValueError: if it is not text in UTF-8, or not compressed as its name says.

    Attributes:
        too_long (int): lines that :meth:`blocks` skipped because they exceed 4 MiB.
        bytes_read (int): the position of :meth:`blocks` in the file, in bytes as stored.
    """

    def __init__(self, path: str):
        self.path = path
        self.too_long = 0
        self.bytes_read = 0
        if os.path.exists(path) and not os.path.isfile(path):
            raise ValueError(f"{path} is not a file")
        with open(path, "rb") as file:
            start = file.read(16)
        self._open = next((o for magic, o in _OPENERS.items() if magic.match(start)), None)
        expected = _SUFFIXES.get(os.path.splitext(path)[1].lower())
        if start and expected and self._open is not expected:
            raise ValueError(f"{path} is not compressed as its name says")
        for magic, name in _UNKNOWN_ARCHIVES.items():
            if start.startswith(magic):
                raise ValueError(
                    f"{path} is a {name} archive, which is not supported; give plain, "
                    ".gz, .xz or .bz2 text"
                )

    def blocks(self) -> Iterator[bytes]:
        """Yield blocks of whole lines, about 1 MiB each; every line ends with a line feed.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if an archive is damaged or cut short, or the text is not in UTF-8 at all.
        """
        with open(self.path, "rb") as stored:
            file = self._open(stored) if self._open else stored
            try:
                for block in self._whole_lines(file):
                    self.bytes_read = stored.tell()
                    yield block
                self.bytes_read = stored.tell()
            except (EOFError, lzma.LZMAError, zlib.error) as error:
                raise ValueError(f"{self.path} is damaged or cut short: {error}") from error
            except OSError as error:
                # errors of gzip and bz2 do not name the file
                raise OSError(f"{self.path} cannot be read: {error}") from error

    def _whole_lines(self, file) -> Iterator[bytes]:
        rest = b""
        skipping = False
        first = True
        while True:
            chunk = file.read(BLOCK_BYTES)
            if not chunk:
                break
            if first:
                self._refuse_other_encodings(chunk)
                first = False
            if skipping:
                end = chunk.find(b"\n") + 1
                if not end:
                    continue
                chunk = chunk[end:]
                skipping = False
            end = chunk.rfind(b"\n") + 1
            if end:
                yield rest + chunk[:end]
                rest = chunk[end:]
            else:
                rest += chunk
            if len(rest) > LINE_BYTES:
                self.too_long += 1
                rest = b""
                skipping = True
        if rest:
            yield rest + b"\n"

    def _refuse_other_encodings(self, start: bytes) -> None:
        if start.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
            raise ValueError(
                f"{self.path} is in UTF-16 or UTF-32; convert it first: iconv -t UTF-8"
            )
        if start.count(b"\x00") > len(start) // 10:
            raise ValueError(f"{self.path} is not UTF-8 text: it has many zero bytes")
