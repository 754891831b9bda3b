"""Reads the text of one column of a parquet file."""

import os
from collections.abc import Iterator

from tupe_fairseq.text.json_texts import names_of
from tupe_fairseq.text.parquet_file import ParquetFile

_BLOCK_CHARACTERS = 1 << 20


class ParquetTexts:
    """The texts of a parquet file, in blocks.

    Args:
        path (str): the file.
        field (str): the column with the texts.
    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is not parquet, or the column is missing or holds no texts.

    Attributes:
        too_long (int): 0; nothing is skipped.
        bytes_read (int): the share of the rows that :meth:`blocks` has read, of the file's bytes.
    """

    too_long = 0

    def __init__(self, path: str, field: str):
        self._file = ParquetFile(path)
        self._field = field
        columns = self._file.columns
        if field not in columns:
            raise ValueError(
                f"{path} has no column {field!r} (--text-field); the columns are "
                f"{names_of(columns)}"
            )
        if columns.count(field) > 1:
            raise ValueError(f"{path} has several columns {field!r} (--text-field)")
        if not self._file.is_text(field):
            kind = self._file.type_of(field)
            raise ValueError(f"{path}: --text-field {field} is a column of {kind}, not of texts")
        self.bytes_read = 0

    def blocks(self) -> Iterator[list[str]]:
        """Yield texts, about a million characters at a time.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if it is damaged, or a text is null; the message names file and row.
        """
        size = os.path.getsize(self._file.path)
        texts: list[str] = []
        characters = 0
        for number, (column,) in self._file.batches([self._field]):
            if None in column:
                raise ValueError(
                    f"{self._file.path}, row {number + column.index(None)}: --text-field "
                    f"{self._field} is null, not a text"
                )
            texts += column
            characters += sum(map(len, column))
            if characters >= _BLOCK_CHARACTERS:
                self.bytes_read = size * (number + len(column) - 1) // self._file.rows
                yield texts
                texts, characters = [], 0
        if texts:
            yield texts
        self.bytes_read = size

    def texts(self, block: list[str]) -> tuple[list[str], int]:
        """The texts of a block, as they are, and how many are left out: none."""
        return block, 0
