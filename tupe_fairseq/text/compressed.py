"""Reads .xz and .bz2 files to their very end."""

import bz2
import io
import lzma
from collections.abc import Callable
from typing import Any

_STORED_BYTES = 1 << 16
_READ_BYTES = 1 << 20


class _Streams(io.RawIOBase):
    """The content of compressed streams that follow each other.

    Python's own readers of .xz and .bz2 are silent about anything else after the first stream.

    Args:
        stored (file): the file, open for reading bytes.
        make (callable): makes a decompressor for each stream.
    """

    def __init__(self, stored, make: Callable[[], Any]):
        self._stored = stored
        self._make = make
        self._decompressor = None
        self._pending = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        found = b""
        while not found:
            if not self._pending and (self._decompressor is None or self._decompressor.needs_input):
                self._pending = self._stored.read(_STORED_BYTES)
                if not self._pending:
                    if self._decompressor is None:
                        return 0
                    raise EOFError("its end is missing")
            if self._decompressor is None:
                # zeros may stand between streams
                self._pending = self._pending.lstrip(b"\0")
                if not self._pending:
                    continue
                self._decompressor = self._make()
            found = self._decompressor.decompress(self._pending, len(buffer))
            self._pending = b""
            if self._decompressor.eof:
                self._pending, self._decompressor = self._decompressor.unused_data, None
        buffer[: len(found)] = found
        return len(found)


def open_xz(stored):
    """The content of an .xz file that is open for reading bytes."""
    return io.BufferedReader(_Streams(stored, _xz_decompressor), _READ_BYTES)


def _xz_decompressor():
    return lzma.LZMADecompressor(lzma.FORMAT_XZ)


def open_bz2(stored):
    """The same for .bz2."""
    return io.BufferedReader(_Streams(stored, bz2.BZ2Decompressor), _READ_BYTES)
