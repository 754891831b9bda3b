"""Opens raw text, plain or compressed, and cleans it."""

import bz2
import contextlib
import gzip
import io
import lzma
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from typing import IO

#: compressed formats: extension, opener, and first bytes; the first bytes decide, not the name
OPENERS = {
    ".gz": (gzip.open, rb"\x1f\x8b\x08"),
    ".xz": (lzma.open, rb"\xfd7zXZ\x00"),
    ".bz2": (bz2.open, rb"BZh\d1AY&SY"),
}
BOM = b"\xef\xbb\xbf"
BLOCK_BYTES = 1 << 18
#: the share of lost lines, or of unknown tokens, that deserves a warning
MUCH = 0.01
#: advice for what is not UTF-8
CONVERT = (
    "convert the file first: iconv -f ENCODING -t UTF-8 (ENCODING is often CP1252, LATIN1, UTF-16, "
    "UTF-32, SHIFT_JIS or GB18030)"
)

# .zst, .lz4, .7z, .rar, .zip and spreadsheets, .tar, .parquet, .pdf, UTF-16; other binary files
# have many control characters
_BINARY = re.compile(
    rb"(?s)\x28\xb5\x2f\xfd|\x04\x22\x4d\x18|7z\xbc\xaf|Rar!|PK\x03\x04|.{257}ustar|PAR1|%PDF-"
    rb"|\xff\xfe|\xfe\xff"
)
_MARKUP = re.compile(rb"(?i)\s*<(\?xml|!doctype|html|mediawiki)\b")
_CONTROLS = bytes({*range(32)} - {*b"\t\n\v\f\r\x1b"})

# Control, format and private characters, surrogates, non-characters, the replacement character:
# a list, because unicodedata differs between versions of Python. U+200C and U+200D stay: they
# distinguish words in Persian and in Indian scripts.
UNPRINTABLE = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ue000-\uf8ff\ufdd0-\ufdef\ufeff\ufff0-\uffff\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
)
_UNPRINTABLE = re.compile(f"[{UNPRINTABLE}\ud800-\udfff]+")
# SentencePiece reads this as the mask token anywhere in a text
_MASK = re.compile("<(?=mask>)", re.IGNORECASE)


def printable(text: str) -> str:
    """Unicode NFC without unprintable characters."""
    if text.isascii():
        return text if text.isprintable() else _UNPRINTABLE.sub("", text)
    return unicodedata.normalize("NFC", _UNPRINTABLE.sub("", text))


def clean_line(line: str, lowercase: bool = False) -> str:
    """A line in the form that our vocabularies are learned from and that our models get.

    Unicode NFC, no unprintable characters, single spaces, ``<mask>`` written ``< mask>``.
    """
    line = " ".join(printable(line).split())
    if lowercase:
        line = line.lower()
    return _MASK.sub("< ", line) if "<" in line else line


@contextlib.contextmanager
def open_text(path: str, keeps_bom: bool = False) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
    """A file, decompressed, without a BOM, and a function that says how far it has been read."""
    with open(path, "rb", BLOCK_BYTES) as stored:
        start = stored.peek(16)
        openers = [opener for opener, magic in OPENERS.values() if re.match(magic, start)]
        try:
            file = io.BufferedReader(openers[0](stored), BLOCK_BYTES) if openers else stored
            refuse_others(path, file.peek())
            if file.peek().startswith(BOM) and not keeps_bom:
                file.read(len(BOM))
            yield file, stored.tell
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error


def read_lines(path: str) -> list[str]:
    """All lines of a small file, without a BOM; only a line feed ends a line."""
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        try:
            return [line.removesuffix("\n") for line in file]
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not a text file in UTF-8") from error


def refuse_others(path: str, start: bytes) -> None:
    """Refuse, by its first bytes, what is not UTF-8 text with line ends LF or CR LF."""
    if _MARKUP.match(start):
        raise ValueError(f"{path} is XML or HTML; extract the text first")
    num_controls = len(start) - len(start.translate(None, _CONTROLS))
    if _BINARY.match(start) or num_controls > 1 + len(start) / 20:
        raise ValueError(
            f"{path} is not text in UTF-8, it begins with {start[:16]!r}; unpack it, save it as "
            f"text (or name it .parquet), or {CONVERT}"
        )
    lines = re.sub(b'"[^"]*"', b"", start).strip()  # a field of .csv may have any line end
    if len(re.findall(rb"\r(?!\n)", lines)) > lines.count(b"\n"):
        raise ValueError(
            f"{path} ends its lines with CR; convert it first: tr '\\r' '\\n' < FILE > NEW"
        )


def holds_json(start: bytes) -> bool:
    """Whether this begins with a JSON object on one line, or with a list of objects or strings."""
    return bool(re.match(rb'\s*(\{\s*".*\}\s*$|\[\s*[{"])', start, re.MULTILINE))
