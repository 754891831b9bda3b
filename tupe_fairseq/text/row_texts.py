"""Text that is one field of rows, each of which is a document: JSON lines or parquet."""

import os
from typing import Any

from tupe_fairseq.text.json_texts import JsonTexts
from tupe_fairseq.text.not_text import (
    is_json_lines,
    refuse_other_encodings,
    refuse_what_is_no_text,
)
from tupe_fairseq.text.reading import TextFile

_SAMPLE_BYTES = 1 << 20
_COMPRESSED = (".gz", ".xz", ".bz2")
_JSON = (".jsonl", ".ndjson", ".json")


def open_texts(path: str, field: str) -> Any:
    """The texts of the rows of a file.

    Args:
        path (str): a .parquet file; or JSON lines, plain, .gz, .xz or .bz2.
        field (str): the column, or the name in each JSON object.
    Returns:
        JsonTexts or ParquetTexts.
    Raises:
        OSError: if the file cannot be read.
        ValueError: if it has no such rows, or no such column.
        ModuleNotFoundError: if it is parquet and pyarrow is not installed.
    """
    start = TextFile(path).start(_SAMPLE_BYTES)
    if start.startswith(b"PAR1") or path.lower().endswith(".parquet"):
        # pyarrow is an extra
        from tupe_fairseq.text.parquet_texts import ParquetTexts

        return ParquetTexts(path, field)
    name, suffix = os.path.splitext(path.lower())
    name = name if suffix in _COMPRESSED else path.lower()
    begins = start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if begins not in (b"", b"{") and not (name.endswith(_JSON) or is_json_lines(start)):
        refuse_what_is_no_text(path)
        raise ValueError(
            f"{path} is plain text, which has no fields; leave --text-field out, or give JSON "
            "lines or parquet files only"
        )
    refuse_other_encodings(path, start)
    return JsonTexts(path, field)


def check_texts(path: str, field: str) -> None:
    """Refuse a file whose first rows have no texts in this field.

    Raises:
        OSError, ValueError, ModuleNotFoundError: as :func:`open_texts`, or as reading it.
    """
    source = open_texts(path, field)
    for block in source.blocks():
        source.texts(block)
        return
