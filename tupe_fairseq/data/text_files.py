"""Reads raw text: lines and documents of plain or compressed files, JSON lines and parquet."""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

OPENERS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".bz2": bz2.open,
}
BLOCK_BYTES = 1 << 18

# Control, format and private characters, surrogates, non-characters, the replacement character:
# a list, because unicodedata differs between versions of Python. U+200C and U+200D stay: they
# distinguish words in Persian and in Indian scripts.
UNPRINTABLE = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ue000-\uf8ff\ufdd0-\ufdef\ufeff\ufff0-\uffff\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
)
_UNPRINTABLE = re.compile(f"[{UNPRINTABLE}\ud800-\udfff]+")
# SentencePiece takes this for the mask token anywhere in a text
_MASK = re.compile("<(?=mask>)", re.IGNORECASE)


def clean_line(line: str, lowercase: bool = False) -> str:
    """A line as our vocabularies are learned from it and our models get it.

    Unicode NFC, no unprintable characters, single spaces, ``<mask>`` written ``< mask>``.
    """
    if not line.isascii():
        line = unicodedata.normalize("NFC", _UNPRINTABLE.sub("", line))
    elif not line.isprintable():
        line = _UNPRINTABLE.sub("", line)
    line = " ".join(line.split())
    if lowercase:
        line = line.lower()
    return _MASK.sub("< ", line) if "<" in line else line


@contextlib.contextmanager
def open_text(path: str) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
    """The bytes of a plain, .gz, .xz or .bz2 file, and how many of the stored ones are read."""
    opener = OPENERS.get(os.path.splitext(path)[1].lower())
    with open(path, "rb") as stored:
        try:
            yield io.BufferedReader(opener(stored)) if opener else stored, stored.tell
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error


Block = tuple[int, bytes | list[str]]


def read_blocks(
    path: str, field: str | None = None, advance: Callable[[int], Any] = lambda size: None
) -> Iterator[Block]:
    """A file in blocks: the number of the first line, and whole lines or texts of parquet rows.

    Args:
        advance: called with the number of bytes read.
    """
    if field is not None and path.lower().endswith(".parquet"):
        yield from _parquet_texts(path, field, advance)
        return
    with open_text(path) as (file, position):
        number, before = 1, 0
        while block := file.read(BLOCK_BYTES) + file.readline():
            yield number, block
            number += block.count(b"\n")
            advance(position() - before)
            before = position()


def lines_of(block: Block, field: str | None, path: str) -> Iterable[str | None]:
    """The lines of a block without their ends; None for one that is not UTF-8.

    A blank line ends a document. With a field each row of JSON lines or parquet is a document: the
    lines of this field that are not empty, then an empty one.
    """
    first, content = block
    if field is None:
        return _decoded(content)
    return _lines_of_rows(first, content, field, path)


def _lines_of_rows(first: int, content: bytes | list[str], field: str, path: str):
    texts = content if isinstance(content, list) else _decoded(content)
    for number, text in enumerate(texts, first):
        if text is None:
            yield None
        elif isinstance(content, list) or text.strip():
            if isinstance(content, bytes):
                text = _field_of(text.lstrip("\ufeff"), field, f"{path}, line {number}")
            yield from [*filter(None, text.split("\n")), ""]


def _decoded(content: bytes) -> Iterable[str | None]:
    content = content.removesuffix(b"\n")
    try:
        return content.decode().split("\n")
    except UnicodeDecodeError:
        return map(_decoded_line, content.split(b"\n"))


def _decoded_line(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


def documents(path: str, field: str | None = None) -> Iterator[str | None]:
    """The lines of a whole file, as :func:`lines_of`."""
    for block in read_blocks(path, field):
        yield from lines_of(block, field, path)


def check_text(path: str, field: str | None) -> None:
    """Refuse what is no text, or has no text in this field, by its beginning."""
    if field is not None:
        next(documents(path, field), None)
        return
    with open_text(path) as (file, _):
        start = file.read(BLOCK_BYTES)
    if start.startswith(b"PAR1"):
        raise ValueError(
            f"{path} is a parquet file; name the column of the text: --text-field NAME"
        )
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or start.count(0) > len(start) // 10:
        raise ValueError(
            f"{path} is not text in UTF-8; convert it first (of UTF-16: iconv -f UTF-16 -t UTF-8), "
            "or unpack it"
        )
    lines = [line for line in start.split(b"\n")[:10] if line.strip()]
    if lines and all(map(_is_object, lines)):
        raise ValueError(
            f"{path} holds JSON objects, whose keys and quotes would be learned as text; name the "
            "field of the text: --text-field NAME"
        )


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _field_of(line: str, field: str, place: str) -> str:
    """The text in a field of a JSON object."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place} is not JSON ({error}); --text-field needs JSON lines") from None
    if not isinstance(row, dict):
        raise ValueError(f"{place} is not a JSON object; give one per line (jq -c '.[]')")
    if not isinstance(row.get(field), str):
        problem = f"is not a text, but {row[field]!r:.50}" if field in row else "is missing"
        raise ValueError(
            f"{place}: --text-field {field} {problem}; the fields are {', '.join(row)}"
        )
    return row[field]


def _parquet_texts(path: str, field: str, advance: Callable[[int], Any]) -> Iterator[Block]:
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
        if field not in file.schema_arrow.names:
            names = ", ".join(file.schema_arrow.names)
            raise ValueError(f"{path} has no column {field} (--text-field); they are {names}")
        size, row = os.path.getsize(path), 1
        for batch in file.iter_batches(1000, columns=[field], use_threads=False):
            texts = batch.column(0).to_pylist()
            for number, text in enumerate(texts, row):
                if not isinstance(text, str):
                    raise ValueError(f"{path}, row {number}: --text-field {field} is not a text")
            yield row, texts
            row += len(texts)
            advance(size * len(texts) // file.metadata.num_rows)
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        words = " ".join(str(error).split())
        raise ValueError(f"{path} cannot be read as parquet: {words}") from error
