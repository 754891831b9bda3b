"""Rows of .jsonl files: a JSON object each."""

from collections.abc import Iterator, Sequence
from typing import Any

from tupe_fairseq.rows.decoded_lines import decoded_lines
from tupe_fairseq.rows.row_file import OTHER_COLUMNS, BadRow, Row, RowFile
from tupe_fairseq.rows.row_values import as_row
from tupe_fairseq.text.json_texts import json_object, names_of


class JsonRows(RowFile):
    """A file of JSON lines; its columns are the names in the first object.

    Objects may have further names, unless all columns are asked for.  Blank lines are no rows.

    Args:
        path (str): the file.
    Raises:
        OSError, ValueError: as :func:`open_rows`.
    """

    def __init__(self, path: str):
        first = next(_objects(path), None)
        if first is None:
            raise ValueError(f"{path} is empty")
        if isinstance(first[1], BadRow):
            raise first[1]
        super().__init__(path, list(first[1]))

    def _rows(self, columns: Sequence[str], is_all: bool) -> Iterator[Row | BadRow]:
        known = set(self.columns)
        for number, values in _objects(self.path):
            place = self.place(number)
            if isinstance(values, BadRow):
                yield values
                continue
            missing = [name for name in columns if name not in values]
            more = [name for name in values if name not in known] if is_all else []
            if missing:
                found = f"{place} has no {names_of(missing)}, which the first row has"
                yield BadRow(found, OTHER_COLUMNS)
            elif more:
                found = f"{place} has {names_of(more)}, which the first row has not"
                yield BadRow(found, OTHER_COLUMNS)
            else:
                yield as_row(number, place, columns, map(values.__getitem__, columns))


def _objects(path: str) -> Iterator[tuple[int, dict[str, Any] | BadRow]]:
    for number, line in decoded_lines(path):
        if line and not line.isspace():
            try:
                yield number, json_object(line, path, number)
            except ValueError as error:
                yield number, BadRow(str(error), "not a JSON object")
