"""Writes rows as .tsv, .csv or .jsonl."""

import contextlib
import csv
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from tupe_fairseq.files.atomic import atomic_write


class RowWriter:
    """Writes rows to an open file; :func:`writing_rows` makes one.

    Args:
        path (str): the file, for messages.
        columns (list of str): the names of the columns.
        file: open for writing text.
        line (callable): a list of texts and numbers -> a line, without what ends it.
    """

    def __init__(self, path: str, columns: list[str], file, line: Callable[..., str]):
        self._path = path
        self._columns = columns
        self._file = file
        self._line = line

    def write(self, values: Sequence[Any]) -> None:
        """Write a row.

        Args:
            values (sequence): texts, numbers, or lists of texts, one for each column.
        Raises:
            ValueError: if there are more or fewer, or the kind of file cannot hold one.
        """
        if len(values) != len(self._columns):
            raise ValueError(f"{self._path}: {len(values)} values for {len(self._columns)} columns")
        self._file.write(self._line(self._path, self._columns, values) + "\n")


@contextlib.contextmanager
def writing_rows(path: str, columns: Sequence[str], header: bool = True) -> Iterator[RowWriter]:
    """Write a file of rows, which appears under its name when the block ends without an error.

    Lists become texts with spaces between in .tsv and .csv, and stay lists in .jsonl.

    Args:
        path (str): .tsv, .csv or .jsonl.
        columns (sequence of str): the names of the columns.
        header (bool): whether .tsv and .csv begin with them.
    Raises:
        OSError: if it cannot be written.
        ValueError: if it has another ending, or two columns have the same name.
    """
    names = added_columns([], columns)
    check_ending(path)
    with atomic_write(path) as file:
        yield row_writer(path, names, file, header)


def check_ending(path: str) -> None:
    """Refuse a name of a file that cannot be written.

    Raises:
        ValueError: if it has another ending than .tsv, .csv or .jsonl.
    """
    if os.path.splitext(path)[1].lower() not in _LINES:
        raise ValueError(f"{path} has none of the endings that can be written: {', '.join(_LINES)}")


def row_writer(path: str, columns: Sequence[str], file: IO[str], header: bool = True) -> RowWriter:
    """What writes rows to an open file.

    Args:
        path (str): its name, or one that ends like it: .tsv, .csv or .jsonl.
        columns (sequence of str): the names of the columns, each another.
        file: open for writing text, newlines as written.
        header (bool): whether .tsv and .csv begin with the names of the columns, written now.
    """
    line = _LINES[os.path.splitext(path)[1].lower()]
    writer = RowWriter(path, list(columns), file, line)
    if header and line is not _json_line:
        writer.write(columns)
    return writer


def added_columns(columns: Sequence[str], more: Sequence[str]) -> list[str]:
    """The columns of an input and those that are put after them.

    Raises:
        ValueError: if two have the same name.
    """
    found = list(columns)
    for name in more:
        if name in found:
            raise ValueError(f"there is a column {name!r} already; rename it in the input")
        found.append(name)
    return found


def _tab_line(path: str, columns: list[str], values: Sequence[Any]) -> str:
    fields = _flat(path, columns, values)
    for name, field in zip(columns, fields):
        if any(sign in field for sign in "\t\n\r"):
            raise ValueError(
                f"{path}: column {name!r} has a text with a tab or a line end, which .tsv cannot "
                "hold; write .csv or .jsonl"
            )
    if fields == [""]:
        raise ValueError(f"{path}: .tsv of one column cannot hold an empty text; write .csv")
    return "\t".join(fields)


def _comma_line(path: str, columns: list[str], values: Sequence[Any]) -> str:
    lines: list[str] = []
    # \r\n: or it would not quote a \r on every Python
    csv.writer(_Into(lines), lineterminator="\r\n").writerow(_flat(path, columns, values))
    return lines[0][:-2]


def _json_line(path: str, columns: list[str], values: Sequence[Any]) -> str:
    return json.dumps(dict(zip(columns, values)), ensure_ascii=False)


_LINES = {".tsv": _tab_line, ".csv": _comma_line, ".jsonl": _json_line}


class _Into:
    """A file to csv; a list of what it writes."""

    def __init__(self, lines: list[str]):
        self.write = lines.append


def _flat(path: str, columns: list[str], values: Sequence[Any]) -> list[str]:
    return [_joined(path, name, value) for name, value in zip(columns, values)]


def _joined(path: str, name: str, value: Any) -> str:
    if not isinstance(value, (list, tuple)):
        return str(value)
    if any(len(str(one).split()) != 1 for one in value):
        raise ValueError(
            f"{path}: column {name!r} has a list with an empty text or one with spaces, which only "
            ".jsonl can hold; write .jsonl"
        )
    return " ".join(map(str, value))
