"""Reads text of any size, compressed or not, in blocks of whole lines and in bounded memory."""

import contextlib
import gzip
import lzma
import os
import re
import zlib
from collections.abc import Iterator

from tupe_fairseq.text.compressed import open_bz2, open_xz

BLOCK_BYTES = 1 << 20
# Longer lines are skipped without being held in memory.
LINE_BYTES = 4 << 20
#: a longer text of a row is refused: to split it can take 300 bytes of memory for each
TEXT_CHARACTERS = 1 << 20

# a text could begin with bzip2's "BZh" alone
_OPENERS = {
    re.compile(rb"\x1f\x8b"): gzip.open,
    re.compile(rb"\xfd7zXZ\0"): open_xz,
    re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"): open_bz2,
}
_SUFFIXES = {".gz": gzip.open, ".tgz": gzip.open, ".xz": open_xz, ".bz2": open_bz2}


class TextFile:
    """A plain, .gz, .xz or .bz2 file of lines.

    Args:
        path (str): the file.
        longest (int, optional): refuse a line of more bytes; default: skip it, from 4 MiB on.
    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no file, or not compressed as its name says.

    Attributes:
        too_long (int): lines that :meth:`blocks` skipped because they exceed 4 MiB.
        bytes_read (int): the position of :meth:`blocks` in the file, in bytes as stored.
    """

    def __init__(self, path: str, longest: int | None = None):
        self.path = path
        self._longest = longest
        self.too_long = 0
        self.bytes_read = 0
        if os.path.exists(path) and not os.path.isfile(path):
            raise ValueError(f"{path} is not a file")  # a pipe would be waited for
        with open(path, "rb") as file:
            start = file.read(16)
        self._open = next((o for magic, o in _OPENERS.items() if magic.match(start)), None)
        expected = _SUFFIXES.get(os.path.splitext(path)[1].lower())
        if start and expected and self._open is not expected:
            raise ValueError(f"{path} is not compressed as its name says")

    def start(self, length: int) -> bytes:
        """The first bytes of the text.

        Raises:
            OSError, ValueError: as :meth:`blocks`.
        """
        with self._reading() as (_, text):
            return text.read(length)

    def blocks(self) -> Iterator[bytes]:
        """Yield blocks of whole lines, about 1 MiB each; every line ends with a line feed.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if an archive is damaged, cut short or followed by something else, or if a
                line is longer than ``longest``.
        """
        with self._reading() as (stored, text):
            for block in self._whole_lines(text):
                self.bytes_read = stored.tell()
                yield block
            self.bytes_read = stored.tell()

    @contextlib.contextmanager
    def _reading(self):
        with open(self.path, "rb") as stored:
            try:
                yield stored, self._open(stored) if self._open else stored
            except (EOFError, lzma.LZMAError, zlib.error) as error:
                raise ValueError(f"{self.path} is damaged or cut short: {error}") from error
            except OSError as error:
                # errors of gzip and bz2 do not name the file
                raise OSError(f"{self.path} cannot be read: {error}") from error

    def _whole_lines(self, file) -> Iterator[bytes]:
        rest = b""
        skipping = False
        lines = 0
        while True:
            chunk = file.read(BLOCK_BYTES)
            if not chunk:
                break
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
            if self._longest is not None:
                lines += chunk.count(b"\n")
                if len(rest) > self._longest:
                    size = f"{self._longest >> 20} MiB"
                    raise ValueError(f"{self.path}, line {lines + 1} is longer than {size}")
            elif len(rest) > LINE_BYTES:
                self.too_long += 1
                rest = b""
                skipping = True
        if rest:
            yield rest + b"\n"
