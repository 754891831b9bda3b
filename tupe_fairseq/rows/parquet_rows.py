"""Rows of .parquet files."""

from collections.abc import Iterator, Sequence

from tupe_fairseq.rows.row_file import BadRow, Row, RowFile
from tupe_fairseq.rows.row_values import as_row
from tupe_fairseq.text.parquet_file import ParquetFile


class ParquetRows(RowFile):
    """A parquet file.

    Args:
        path (str): the file.
    Raises:
        OSError, ValueError: as :func:`open_rows`.
    """

    unit = "row"

    def __init__(self, path: str):
        self._file = ParquetFile(path)
        super().__init__(path, self._file.columns)

    def _rows(self, columns: Sequence[str], is_all: bool) -> Iterator[Row | BadRow]:
        for first, batch in self._file.batches(columns):
            for number, values in enumerate(zip(*batch), first):
                yield as_row(number, self.place(number), columns, values)
