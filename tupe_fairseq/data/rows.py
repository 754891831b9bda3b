"""Files of rows: columns, texts, bad rows, writing; :mod:`row_formats` reads each format."""

import collections
import csv
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import IO, Any

from tupe_fairseq.data.row_formats import (
    FIRST_ROWS,
    NOT_UTF8,
    READERS,
    STANDARD_INPUT,
    Row,
    RowError,
    ending_of,
    place,
    quoted,
    standard_input,
)
from tupe_fairseq.data.text_files import BOM, open_text

CHUNK_ROWS = 8192
HALF_CHARACTERS = re.compile("[\ud800-\udfff]")  # surrogates: JSON can escape them, UTF-8 has none
# lists, tuples and sets as Python and JSON write them; and anything in brackets
_LIST = re.compile(r"""\s*(?:[\[({]\s*(['"]).*\1,?\s*[])}]|\[[\s\d,]*\])\s*""", re.DOTALL)
_IN_BRACKETS = re.compile(r"\s*(?:\[.*\]|\{.*\})\s*|" + _LIST.pattern, re.DOTALL)
_WORD = re.compile("[^ \t\r\n]+")


class BadRows(collections.Counter):
    """Counts rows that cannot be used, by reason; ``first`` is the message of the first.

    Without ``skips`` (--skip-bad-rows) the first one is an error.
    """

    first = ""

    def __init__(self, skips: bool = True):
        super().__init__()
        self.skips = skips

    def __call__(self, error: RowError) -> None:
        if not self.skips:
            raise ValueError(f"{error}; --skip-bad-rows leaves such rows out") from None
        self.first = self.first or str(error)
        self[error.reason] += 1

    def __str__(self) -> str:
        reasons = ", ".join(f"{reason}: {number}" for reason, number in self.items())
        return f"{self.total()} rows ({reasons}); the first: {self.first}"


def shown(value: Any) -> str:
    """A value as JSON writes it, for messages."""
    return json.dumps(value, ensure_ascii=False, default=str)[:60]


def refuse_list(text: str, any_brackets: bool = False) -> None:
    """Refuse a list written as text, as pandas does it."""
    if (_IN_BRACKETS if any_brackets else _LIST).fullmatch(text):
        problem = f"has a list as text, {text[:40]!r}; write .jsonl, or leave out the brackets"
        raise RowError(problem, "a list as text")


def texts_of(values: list[str | list[str]]) -> list[str]:
    """The texts of cells; lists are refused."""
    for text in values:
        if not isinstance(text, str):
            raise RowError("has a list, not a text; only tagging takes lists", "a list for a text")
        refuse_list(text)
    return values


def words_of(text: str | list[str]) -> list[str]:
    """The words of a cell; only spaces, tabs and line ends separate words."""
    if isinstance(text, list):
        if "" in text:
            raise RowError("has an empty word", "empty word")
        return text
    refuse_list(text)
    return _WORD.findall(text)


def first_rows(path: str) -> list[Row]:
    """The usable ones of the first rows, at least one."""
    rows = list(itertools.islice(READERS[ending_of(path)](path), FIRST_ROWS))
    good = [row for _, row in rows if isinstance(row, dict)]
    if not good:
        problem = f"{place(path, rows[0][0])} {rows[0][1]}" if rows else f"{path} has no rows"
        raise ValueError(problem)
    return good


def read_columns(path: str) -> list[str]:
    """The names of the columns; of JSON those in its first rows, of .conll "1", "2", ..."""
    return list(dict.fromkeys(itertools.chain.from_iterable(first_rows(path))))


def read_rows(path: str, columns: list[str], *args, **options) -> Iterator[tuple[int, Any]]:
    """The rows of :func:`read_chunks`, one by one."""
    for chunk in read_chunks(path, columns, *args, **options, size=1):
        yield from chunk


def read_chunks(
    path: str,
    columns: list[str],
    on_bad: Callable[[RowError], Any] | None = None,
    use: Callable[[int, Row, Row], Any] = lambda index, row, texts: texts,
    ending: str = "",
    size: int = CHUNK_ROWS,
) -> Iterator[list[tuple[int, Any]]]:
    """Yield lists of rows, each with the number of its first line (of parquet, its row from 1).

    Rows of standard input are yielded as soon as they arrive.

    Args:
        columns: those whose values are needed as text.
        on_bad: is called with the error of each unusable row; by default the first one is raised.
        use: turns the index of a row (from 0), the row and its texts into what is yielded; may
            raise RowError.
        ending: the format, by default that of the file's name.
    """
    index, chunks = itertools.count(), standard_input()
    if path != STANDARD_INPUT:
        rows = READERS[ending or ending_of(path)](path)
        chunks = iter(lambda: list(itertools.islice(rows, size)), [])
    for chunk in chunks:
        good = []
        for (number, row), place_in_file in zip(chunk, index):
            try:
                if isinstance(row, RowError):
                    raise row
                good.append((number, use(place_in_file, row, _texts(row, columns))))
            except RowError as error:
                where = place(path, number, place_in_file)
                error = RowError(f"{where} {error}", error.reason)
                if on_bad is None:
                    raise error from None
                on_bad(error)
        yield good
    if not next(index) and path != STANDARD_INPUT:
        raise ValueError(f"{path} has no rows")


def _texts(row: Row, columns: list[str]) -> Row:
    """The values of the columns as texts."""
    if any(name not in row for name in columns):
        raise RowError(f"has the columns {quoted(row)} instead of {quoted(columns)}")
    return {name: _text(name, row[name]) for name in columns}


def _text(column: str, value: Any) -> Any:
    """Texts as they are, numbers as JSON writes them, and lists of these."""
    if isinstance(value, str):
        return value if value.isascii() else HALF_CHARACTERS.sub("", value)
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    if isinstance(value, (Decimal, bytes)):
        return _other(value)
    if isinstance(value, list) and not any(isinstance(one, list) for one in value):
        return [_text(column, one) for one in value]
    problem = f"has {shown(value)} in column {column!r}, which is neither text nor number"
    raise RowError(problem, "neither text nor number")


def marks_of(path: str) -> tuple[str, str]:
    """The BOM of a file, or "", and what ends its first line. Excel reads UTF-8 only with a BOM."""
    if path == STANDARD_INPUT or ending_of(path, ".txt") == ".parquet":
        return "", "\n"
    with open_text(path, keeps_bom=True) as (file, _):
        line = file.readline()
    return BOM.decode() * line.startswith(BOM), "\r\n" if line.endswith(b"\r\n") else "\n"


def row_writer(
    ending: str, file: IO[str], columns: list[str] | None, marks: tuple[str, str] = ("", "\n")
) -> Callable[[Row], Any]:
    """A function that writes a row to an open file of the format .tsv, .csv, .jsonl or .conll.

    In .tsv and .csv a list of words is joined by spaces, and missing values are empty; the header
    is written at once, if there are ``columns``. In .conll the values are lists of words. All but
    .jsonl have the ``marks``, see :func:`marks_of`.
    """
    bom, end = ("", "\n") if ending == ".jsonl" else marks

    def write(row: Row) -> None:
        if ending == ".jsonl":
            line = json.dumps(row, ensure_ascii=False, default=_other)
        elif ending == ".conll":
            tokens = ["\t".join(x) for x in zip(*(words_of(row[name]) for name in columns))]
            if not tokens or any({*"\n\r"} & {*x} or x.count("\t") >= len(columns) for x in tokens):
                problem = "has a word with a tab or a line end" if tokens else "has no words"
                problem += ", which .conll cannot hold; write .jsonl"
                raise RowError(problem, "not for .conll")
            line = end.join([*tokens, ""])
        else:
            fields = [_field(row.get(name)) for name in columns or row]
            line = "\t".join(fields) if ending == ".tsv" else _csv_line(fields)
            if ending == ".tsv" and (line.count("\t") >= len(fields) or {*"\n\r"} & {*line}):
                problem = "has a tab or a line end in a text, which .tsv cannot hold; write .csv or"
                raise RowError(f"{problem} .jsonl (--output-file, --format)", "not for .tsv")
        # surrogates are escaped as in JSON
        file.write(line.encode("utf-8", "backslashreplace").decode() + end)

    if columns:
        file.write(bom)
    if columns and ending not in (".jsonl", ".conll"):
        write({name: getattr(name, "name", name) for name in columns})
    return write


def _field(value: Any) -> str:
    """A value as a field of .tsv or .csv: words are joined by spaces, null is empty."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and all(isinstance(x, str) and _WORD.fullmatch(x) for x in value):
        return " ".join(value)
    is_json = isinstance(value, (bool, int, float, list, dict))
    return json.dumps(value, ensure_ascii=False, default=_other) if is_json else _other(value)


def _other(value: Any) -> str:
    """A value of parquet (a date, a decimal number, ...) as text; bytes only if they are UTF-8."""
    if not isinstance(value, bytes):
        return getattr(value, "isoformat", value.__str__)()
    text = value.decode(errors="surrogateescape")
    if NOT_UTF8.search(text):
        raise RowError(f"has {value[:20]!r}, which is not text; leave that column out", "bytes")
    return text


def _csv_line(fields: list[str]) -> str:
    line = io.StringIO(newline="")
    # \r\n: before Python 3.13, a field with \r is only quoted if the line end has a \r, too
    csv.writer(line, lineterminator="\r\n").writerow(fields)
    return line.getvalue()[:-2]
