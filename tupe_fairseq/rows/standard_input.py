"""Rows that are lines of standard input."""

import sys
from collections.abc import Iterator, Sequence

from tupe_fairseq.rows.decoded_lines import LINE_BYTES
from tupe_fairseq.rows.row_file import OTHER_COLUMNS, BadRow, Row, RowFile, counted


class StandardInput(RowFile):
    """Lines of text; with two columns, two texts with a tab between.  They can be read once.

    Args:
        columns (list of str): one name, or two.
    """

    def __init__(self, columns: Sequence[str]):
        super().__init__("standard input", list(columns))

    def _rows(self, columns: Sequence[str], is_all: bool) -> Iterator[Row | BadRow]:
        places = [self.columns.index(name) for name in columns]
        number = 0
        while True:
            line = sys.stdin.buffer.readline(LINE_BYTES + 1)
            if not line:
                return
            number += 1
            if len(line) > LINE_BYTES:
                raise ValueError(f"{self.place(number)} is longer than {LINE_BYTES >> 20} MiB")
            try:
                text = line.decode().rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ValueError(f"{self.place(number)} is not UTF-8") from error
            values = [text] if len(self.columns) == 1 else text.split("\t")
            if len(values) != len(self.columns):
                found = f"{self.place(number)} has {counted(len(values))}, and "
                found += f"{len(self.columns)} texts with a tab between are needed"
                yield BadRow(found, OTHER_COLUMNS)
                continue
            yield Row(number, [values[place] for place in places])
