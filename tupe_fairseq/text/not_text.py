"""Recognizes, by its beginning, a file that is not a corpus of plain text, and says what to do."""

import json
import os
import re

from tupe_fairseq.text.reading import TextFile

_SAMPLE_BYTES = 1 << 20
# what a file begins with, after decompression; the names of tar and zip stand further inside
_KINDS = {
    re.compile(rb"PK\x03\x04"): "a zip archive",
    re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"): "a zstd archive",
    re.compile(rb"7z\xbc\xaf\x27\x1c"): "a 7z archive",
    re.compile(rb"Rar!\x1a\x07"): "a rar archive",
    re.compile(rb"\x04\x22\x4d\x18"): "an lz4 archive",
    re.compile(rb".{257}ustar", re.DOTALL): "a tar archive",
    re.compile(rb"\x1f\x8b|\xfd7zXZ\0"): "compressed twice",
    re.compile(rb"PAR1"): "a parquet file",
    re.compile(rb"ARROW1|\xff\xff\xff\xff.{4}\x10\0", re.DOTALL): "an arrow file",
    re.compile(rb"SQLite format 3\0"): "a database",
    re.compile(rb"%PDF-"): "a PDF document",
}
_SUFFIXES = {
    **{f".{name}": f"a {name} archive" for name in ("zip", "7z", "rar", "tar")},
    **{f".{name}": f"an {name} archive" for name in ("lz4", "lzma")},
    **{".zst": "a zstd archive", ".zstd": "a zstd archive"},
    ".parquet": "a parquet file",
    ".arrow": "an arrow file",
    ".pdf": "a PDF document",
}
# all below the space but tab, line feed, vertical tab, form feed, carriage return, escape
_CONTROLS = bytes({*range(32), 127} - {9, 10, 11, 12, 13, 27})
_MOST_CONTROLS = 0.02


def refuse_what_is_no_text(path: str) -> None:
    """Refuse a file whose name or first mebibyte says that it is not a corpus.

    Lines that are not UTF-8 are no reason: they are dropped, and counted, when the text is cleaned.

    Args:
        path (str): plain, .gz, .xz or .bz2.
    Raises:
        OSError: if it cannot be read.
        ValueError: if it is not text; the message says what it is, and what to do.
    """
    kind = _SUFFIXES.get(os.path.splitext(path)[1].lower())
    start = TextFile(path).start(_SAMPLE_BYTES)
    if kind is None or not start:
        kind = next((name for pattern, name in _KINDS.items() if pattern.match(start)), None)
    if kind == "a parquet file":
        raise ValueError(f"{path} is {kind}; name the column of the text: --text-field NAME")
    if kind is not None:
        raise ValueError(
            f"{path} is {kind}, which is not supported; give plain, .gz, .xz or .bz2 text"
        )
    refuse_other_encodings(path, start)
    if b"\r" in start.rstrip(b"\r") and b"\n" not in start:
        raise ValueError(
            f"{path} ends its lines with carriage returns alone; convert it first: tr '\\r' '\\n'"
        )
    if is_json_lines(start):
        raise ValueError(
            f"{path} holds JSON objects, whose keys and quotes would be learned as text; name the "
            "field of the text: --text-field NAME"
        )


def refuse_other_encodings(path: str, start: bytes) -> None:
    """Refuse a file whose first bytes are in UTF-16 or UTF-32, or no text at all.

    Args:
        path (str): the file.
        start (bytes): its first bytes, not compressed.
    Raises:
        ValueError: if they are.
    """
    refuse_wide_encodings(path, start)
    controls = len(start) - len(start.translate(None, _CONTROLS))
    if controls > _MOST_CONTROLS * len(start):
        raise ValueError(
            f"{path} is not text: {controls / len(start):.0%} of its first bytes are control "
            "characters"
        )


def refuse_wide_encodings(path: str, start: bytes) -> None:
    """As :func:`refuse_other_encodings`, but text may have control characters.

    Raises:
        ValueError: if the first bytes are in UTF-16 or UTF-32, or many of them are zero.
    """
    if start.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        raise ValueError(f"{path} is in UTF-16 or UTF-32; convert it first: iconv -t UTF-8")
    if start.count(b"\x00") > len(start) // 10:
        raise ValueError(f"{path} is not UTF-8 text: it has many zero bytes")


def is_json_lines(start: bytes) -> bool:
    """Whether each line is a JSON object, or a list of some, as dumps of corpora have them.

    Args:
        start (bytes): the first mebibyte of a file, not compressed.
    """
    lines = start.split(b"\n")
    if len(start) == _SAMPLE_BYTES and len(lines) > 1:
        lines.pop()  # which may be cut
    found = False
    for line in lines:
        line = line.strip().strip(b",\xef\xbb\xbf")
        if line in (b"", b"[", b"]"):
            continue
        if line[:1] not in b"{[":
            return False
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return False
        if isinstance(value, list):
            value = value[0] if value else None
        if not isinstance(value, dict):
            return False
        found = True
    return found
