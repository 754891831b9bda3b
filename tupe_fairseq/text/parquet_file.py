"""Reads columns of a parquet file of any size in batches of rows."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow
import pyarrow.parquet

_MOST_ROWS = 1000
_BATCH_BYTES = 4 << 20
_READ_BYTES = 1 << 20


class ParquetFile:
    """A parquet file.

    Args:
        path (str): the file.
    Raises:
        OSError: if it cannot be read.
        ValueError: if it is not parquet, or damaged.

    Attributes:
        columns (list of str): the names.
        rows (int): how many.
    """

    def __init__(self, path: str):
        self.path = path
        with self._open() as file:
            self.columns: list[str] = list(file.schema_arrow.names)
            self.rows: int = file.metadata.num_rows
            self._types = list(file.schema_arrow.types)
            groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
            row_bytes = sum(group.total_byte_size for group in groups) // max(1, self.rows)
        self._batch_rows = min(_MOST_ROWS, max(1, _BATCH_BYTES // max(1, row_bytes)))

    def type_of(self, column: str) -> Any:
        """The pyarrow type of the values of a column; those of a dictionary are its words'."""
        found = self._types[self.columns.index(column)]
        return found.value_type if pyarrow.types.is_dictionary(found) else found

    def is_text(self, column: str) -> bool:
        """Whether the values of a column are texts."""
        found = self.type_of(column)
        return str(found) in ("string", "large_string", "string_view")

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[int, list[list[Any]]]]:
        """Yield batches of some MiB: the number of the first row, and the values of each column.

        Args:
            columns (sequence of str): which.
        Raises:
            OSError: if the file cannot be read.
            ValueError: if it is damaged.
        """
        names = list(columns)
        number = 1
        with self._open() as file:
            # no threads: processes are forked while it is open
            for batch in file.iter_batches(self._batch_rows, columns=names, use_threads=False):
                yield number, [self._values(batch, name, number) for name in names]
                number += batch.num_rows

    def _values(self, batch, name: str, number: int) -> list[Any]:
        try:
            return batch.column(batch.schema.get_field_index(name)).to_pylist()
        except UnicodeDecodeError as error:
            last = number + batch.num_rows - 1
            raise ValueError(
                f"{self.path}, rows {number} to {last}: column {name!r} has text that is not UTF-8"
            ) from error

    @contextlib.contextmanager
    def _open(self):
        with open(self.path, "rb") as stored:
            try:
                # read as it is asked for, not a whole row group at once
                yield pyarrow.parquet.ParquetFile(stored, buffer_size=_READ_BYTES, pre_buffer=False)
            except (pyarrow.ArrowException, OSError) as error:
                # of pyarrow, which does not name the file, in many lines
                words = " ".join(str(error).split())
                raise ValueError(f"{self.path} cannot be read as parquet: {words}") from error
