"""Rows of .txt files: a text each."""

from collections.abc import Iterator, Sequence

from tupe_fairseq.rows.decoded_lines import decoded_lines
from tupe_fairseq.rows.row_file import BadRow, Row, RowFile


class TextRows(RowFile):
    """A file of texts, one in each line; its only column is ``text``.  No line is left out.

    Args:
        path (str): the file.
    """

    def __init__(self, path: str):
        super().__init__(path, ["text"])

    def _rows(self, columns: Sequence[str], is_all: bool) -> Iterator[Row | BadRow]:
        for number, line in decoded_lines(self.path):
            yield Row(number, [line.rstrip("\r")] * len(columns))
