"""Files of rows: .tsv, .csv, .jsonl, .conll, .txt (also .gz, .bz2, .xz) and .parquet.

A row is a dict from column to text, or to a list of texts. In .conll a row is a sentence, with a
list for each column. In .txt and in "-", which is standard input, it is a line with one text.
"""

import contextlib
import csv
import io
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from tupe_fairseq.data.text_files import OPENERS, open_text

Row = dict[str, Any]
STANDARD_INPUT = "-"
#: formats whose first row may have the names of the columns
DELIMITED = (".tsv", ".csv")

_HALF_CHARACTERS = re.compile("[\ud800-\udfff]")  # JSON may name them, UTF-8 cannot hold them


class RowError(ValueError):
    """A row that cannot be used; ``reason`` is the same for all rows with this problem."""

    def __init__(self, path: str, number: int, problem: str, reason: str = "other columns"):
        super().__init__(f"{place(path, number)} {problem}")
        self.reason = reason


def ending_of(path: str) -> str:
    """The ending that names the format, in lower case."""
    base, ending = os.path.splitext(path.lower())
    if ending in OPENERS:
        ending = os.path.splitext(base)[1].replace(".parquet", "")
    if ending not in _READERS:
        raise ValueError(
            f"{path} is no file of rows: its name should end in {', '.join(_READERS)} (all but "
            f".parquet also followed by {', '.join(OPENERS)})"
        )
    return ending


def place(path: str, number: int) -> str:
    """File and row, for messages."""
    unit = "row" if path.lower().endswith(".parquet") else "line"
    return f"{'standard input' if path == STANDARD_INPUT else path}, {unit} {number}"


def quoted(names: Iterable[str]) -> str:
    """Names of columns or labels, for messages."""
    listed = list(map(repr, names))
    return ", ".join(listed[:10]) + (f" and {len(listed) - 10} more" if len(listed) > 10 else "")


def read_columns(path: str, header: bool = True) -> list[str]:
    """The names of the columns; without a header "1", "2", ..."""
    errors = []
    for _, row in _raw_rows(path, None, header):
        if isinstance(row, dict):
            return list(row)
        errors.append(row)
    raise errors[0] if errors else ValueError(f"{path} has no rows")


def read_rows(
    path: str,
    columns: list[str] | None = None,
    header: bool = True,
    on_bad: Callable[[RowError], Any] | None = None,
) -> Iterator[tuple[int, Row]]:
    """Yield the rows, each with the number of its first line (parquet: of the row, from 1).

    Args:
        columns: which ones; by default all that the first row has, and no row may have others.
        on_bad: is called with each row that cannot be used; by default the first one is raised.
    """
    names, number = columns, 0
    for number, row in _raw_rows(path, columns, header):
        try:
            if isinstance(row, RowError):
                raise row
            names = names or list(row)
            texts = _texts(path, number, row, names, columns is None)
        except RowError as error:
            if on_bad is None:
                raise
            on_bad(error)
        else:
            yield number, texts
    if not number and path != STANDARD_INPUT:
        raise ValueError(f"{path} has no rows")


def row_writer(
    path: str, file: IO[str], columns: list[str], header: bool = True
) -> Callable[[Row], Any]:
    """A function that writes a row to an open file; ``path`` ends in .tsv, .csv or .jsonl.

    Lists are joined by spaces in .tsv and .csv. The header is written at once.
    """
    ending = os.path.splitext(path)[1].lower()

    def write(row: Row) -> None:
        if ending == ".jsonl":
            line = json.dumps({name: row[name] for name in columns}, ensure_ascii=False)
        else:
            fields = [_field(path, ending, name, row[name]) for name in columns]
            line = "\t".join(fields) if ending == ".tsv" else _csv_line(fields)
        file.write(f"{line}\n")

    if header and ending != ".jsonl":
        write({name: name for name in columns})
    return write


def _raw_rows(
    path: str, columns: list[str] | None, header: bool
) -> Iterator[tuple[int, Row | RowError]]:
    if path == STANDARD_INPUT:
        return _standard_input(columns or ["text"])
    return _READERS[ending_of(path)](path, columns, header)


def read_lines(path: str, is_csv: bool = False) -> Iterator[tuple[int, str]]:
    """Lines without their ends; only a line feed ends one. In .csv it may be in a field."""
    number, standard = 0, (getattr(sys.stdin, "buffer", None), None)
    source = contextlib.nullcontext(standard) if path == STANDARD_INPUT else open_text(path)
    with source as (file, _):
        try:
            for number, line in enumerate(file, 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, text if is_csv else text.removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            advice = "convert the file first: iconv -t UTF-8"
            raise ValueError(f"{place(path, number)} is not UTF-8; {advice}") from error


def _tsv(path: str, columns, header: bool):
    rows = ((number, line.split("\t") if line else []) for number, line in read_lines(path))
    return _delimited(path, header, rows)


def _csv(path: str, columns, header: bool):
    csv.field_size_limit(1 << 30)
    reader = csv.reader((line for _, line in read_lines(path, is_csv=True)), strict=True)

    def rows():
        number = 1
        try:
            for fields in reader:
                yield number, fields
                number = reader.line_num + 1
        except csv.Error as error:
            raise ValueError(
                f"{place(path, number)} begins no row of CSV: {error}; is a quote not closed, or "
                "not doubled? (In .tsv quotes have no meaning.)"
            ) from error

    return _delimited(path, header, rows())


def _delimited(path: str, header: bool, rows: Iterator[tuple[int, list[str]]]):
    """Rows of fields; a blank line is none, unless there is only one column."""
    names: list[str] = []
    for number, fields in rows:
        if not fields and len(names) != 1:
            continue
        fields, is_first = fields or [""], not names
        if is_first:
            names = fields if header else [str(i + 1) for i in range(len(fields))]
            if len(set(names)) < len(names):
                raise ValueError(f"{path} has several columns of the same name: {quoted(names)}")
        if len(fields) != len(names):
            problem = f"has {len(fields)} fields, and the first row has {len(names)}"
            yield number, RowError(path, number, problem)
        elif not (is_first and header):
            yield number, dict(zip(names, fields))


def _jsonl(path: str, columns, header):
    for number, line in read_lines(path):
        if line.strip():
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"it is {line[:30]}")
            except (ValueError, RecursionError) as error:
                problem = f"is not a JSON object ({error}); of a list: jq -c '.[]' FILE"
                row = RowError(path, number, problem, "not a JSON object")
            yield number, row


def _conll(path: str, columns, header):
    separator, width = None, 0
    for is_between, group in itertools.groupby(read_lines(path), lambda line: _is_between(line[1])):
        if is_between:
            continue
        numbers, lines = zip(*group)
        if not width:
            separator = "\t" if "\t" in lines[0] else None
            width = len(lines[0].split(separator))
        tokens = [line.split(separator) for line in lines]
        row: Row | RowError = {str(i): list(column) for i, column in enumerate(zip(*tokens), 1)}
        for number, token in zip(numbers, tokens):
            if len(token) != width or "" in token:
                num_fields = len(list(filter(None, token)))
                row = RowError(
                    path, number, f"has {num_fields} fields, and the first token {width}"
                )
                break
        yield numbers[0], row


def _is_between(line: str) -> bool:
    return not line.strip() or line.split(None, 1)[0] == "-DOCSTART-"


def _txt(path: str, columns, header):
    return ((number, {"text": line}) for number, line in read_lines(path))


def _standard_input(columns: list[str]):
    for number, line in read_lines(STANDARD_INPUT):
        texts = [line] if len(columns) == 1 else line.split("\t")
        problem = f"has {len(texts)} texts, not {len(columns)} with tabs between"
        is_good = len(texts) == len(columns)
        yield number, dict(zip(columns, texts)) if is_good else RowError("-", number, problem)


def _parquet(path: str, columns: list[str] | None, header):
    import pyarrow.parquet

    with open(path, "rb") as file:
        try:
            batches = pyarrow.parquet.ParquetFile(file).iter_batches(1000, columns=columns)
            yield from enumerate((row for batch in batches for row in batch.to_pylist()), 1)
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            problem = " ".join(str(error).split())
            raise ValueError(f"{path} cannot be read as parquet: {problem}") from error


_READERS: dict[str, Callable] = {
    ".tsv": _tsv,
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".conll": _conll,
    ".txt": _txt,
    ".parquet": _parquet,
}


def _texts(path: str, number: int, row: Row, names: list[str], is_all: bool) -> Row:
    """The values of the named columns as texts."""
    if any(name not in row for name in names) or (is_all and len(row) > len(names)):
        raise RowError(path, number, f"has the columns {quoted(row)} instead of {quoted(names)}")
    try:
        return {name: _text(name, row[name]) for name in names}
    except TypeError as error:
        raise RowError(path, number, f"has {error}", "neither text nor number") from error


def _text(column: str, value: Any) -> Any:
    """Texts as they are, numbers as JSON writes them, and lists of these."""
    if isinstance(value, str):
        return value if value.isascii() else _HALF_CHARACTERS.sub("", value)
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    if isinstance(value, list) and not any(isinstance(one, list) for one in value):
        return [_text(column, one) for one in value]
    kind = "null" if value is None else f"a {type(value).__name__}"
    raise TypeError(f"{kind} in column {column!r}, which is neither text nor number")


def _field(path: str, ending: str, column: str, value: Any) -> str:
    if isinstance(value, list):
        if any(len(str(one).split()) != 1 for one in value):
            raise ValueError(
                f"{path}: column {column!r} has a list with an empty text or one with spaces, "
                "which only .jsonl can hold"
            )
        return " ".join(map(str, value))
    if ending == ".tsv" and re.search("[\t\n\r]", str(value)):
        raise ValueError(
            f"{path}: column {column!r} has a text with a tab or a line end, which .tsv cannot "
            "hold; write .csv or .jsonl"
        )
    return str(value)


def _csv_line(fields: list[str]) -> str:
    line = io.StringIO(newline="")
    # \r\n: before Python 3.13, a field with \r is quoted only if it is in the line end
    csv.writer(line, lineterminator="\r\n").writerow(fields)
    return line.getvalue()[:-2]
