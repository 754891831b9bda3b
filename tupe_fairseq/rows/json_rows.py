"""Rows of .jsonl files: a JSON object each."""

from typing import Any, Dict, Iterator, Sequence, Tuple

from tupe_fairseq.rows.decoded_lines import decoded_lines
from tupe_fairseq.rows.row_file import Row, RowFile
from tupe_fairseq.rows.row_values import as_value
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
        super().__init__(path, list(first[1]))

    def _rows(self, columns: Sequence[str], is_all: bool) -> Iterator[Row]:
        known = set(self.columns)
        for number, values in _objects(self.path):
            place = self.place(number)
            missing = [name for name in columns if name not in values]
            if missing:
                raise ValueError(f"{place} has no {names_of(missing)}, which the first row has")
            more = [name for name in values if name not in known] if is_all else []
            if more:
                raise ValueError(f"{place} has {names_of(more)}, which the first row has not")
            yield Row(number, [as_value(values[name], place, name) for name in columns])


def _objects(path: str) -> Iterator[Tuple[int, Dict[str, Any]]]:
    for number, line in decoded_lines(path):
        if line and not line.isspace():
            yield number, json_object(line, path, number)
