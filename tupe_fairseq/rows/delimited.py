"""Rows of .tsv and .csv files."""

import csv
from collections.abc import Callable, Iterator, Sequence

from tupe_fairseq.rows.decoded_lines import LINE_BYTES, decoded_lines
from tupe_fairseq.rows.row_file import OTHER_COLUMNS, BadRow, Row, RowFile, counted, numbered

_Records = Iterator[tuple[int, list[str]]]


class DelimitedRows(RowFile):
    """A .tsv or .csv file.

    Blank lines may end it, and stand nowhere else.

    Args:
        path (str): the file.
        split (callable): :func:`tab_separated` or :func:`comma_separated`.
        header (bool): whether the first row has the names of the columns.
    Raises:
        OSError, ValueError: as :func:`open_rows`.
    """

    def __init__(self, path: str, split: Callable[[str], _Records], header: bool = True):
        self._split = split
        self._header = self.has_names = header
        first = next(_without_blank_end(path, split), None)
        if first is None:
            raise ValueError(f"{path} is empty")
        self._first_line, values = first
        super().__init__(path, values if header else numbered(len(values)))

    def _rows(self, columns: Sequence[str], is_all: bool) -> Iterator[Row | BadRow]:
        place_of = {name: place for place, name in enumerate(self.columns)}
        places = [place_of[name] for name in columns]
        records = _without_blank_end(self.path, self._split)
        if self._header:
            next(records)
        for number, values in records:
            if len(values) != len(self.columns):
                found = f"{self.place(number)} has {counted(len(values))}, and line "
                found += f"{self._first_line} has {len(self.columns)}"
                yield BadRow(found, OTHER_COLUMNS)
            else:
                yield Row(number, [values[place] for place in places])


def tab_separated(path: str) -> _Records:
    """Yield the fields between tabs; quotes are characters like others."""
    for number, line in decoded_lines(path):
        line = line[:-1] if line.endswith("\r") else line
        yield number, line.split("\t") if line else []


def comma_separated(path: str) -> _Records:
    """Yield the fields between commas; one in quotes may have commas, quotes and line feeds."""
    # its own limit, for all files, is 128 KiB
    csv.field_size_limit(max(LINE_BYTES, csv.field_size_limit()))
    reader = csv.reader((f"{line}\n" for _, line in decoded_lines(path)), strict=True)
    while True:
        number = reader.line_num + 1
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(
                f"{path}, line {number} begins no row of CSV: {error}; is a quote not closed, or "
                "not doubled? (In .tsv quotes have no meaning.)"
            ) from error
        yield number, values


def _without_blank_end(path: str, split: Callable[[str], _Records]) -> _Records:
    blank = None
    for number, values in split(path):
        if not values:
            blank = blank or number
        elif blank:
            raise ValueError(f"{path}, line {blank} is blank, but rows follow; remove it")
        else:
            yield number, values
