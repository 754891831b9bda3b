"""How each format of rows is read: .tsv, .csv, .jsonl, .conll, .txt (also compressed), .parquet.

A row is a dict of the values as the file has them. In .conll a row is a sentence, with a list for
each column. In .txt and in "-", standard input, it is a line with one text.
"""

import contextlib
import csv
import functools
import itertools
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tupe_fairseq.data.text_files import BOM, CONVERT, OPENERS, holds_json, open_text, refuse_others

Row = dict[str, Any]
STANDARD_INPUT = "-"
NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what surrogateescape makes of invalid bytes
# of CoNLL-U, with its ten columns: a multiword token, whose words follow, or an empty node
_RANGE = re.compile(r"\d+[-.]\d+(\t[^\t]+){9}")
# a first line that tells Excel the separator
_OF_EXCEL = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
_BETWEEN = re.compile(r"\s*(?:(?:-DOCSTART-|#(?:begin|end) document)(?:\s.*)?)?", re.DOTALL)
# how many rows (lines of .csv) are read to find the columns and the separator
FIRST_ROWS = 1000
_warn_once = functools.cache(logging.getLogger("tupe-rows").warning)


class Repeated(str):
    """The key of a column whose ``name`` other columns have, too: its number, from 1."""

    name: str

    def __new__(cls, number: int, name: str) -> "Repeated":
        key = super().__new__(cls, number)
        key.name = name
        return key


class RowError(ValueError):
    """A row that cannot be used; ``reason`` is the same for all rows with this problem."""

    def __init__(self, problem: str, reason: str = "other columns"):
        super().__init__(problem)
        self.reason = reason


def ending_of(path: str, default: str = "") -> str:
    """The extension that names the format, in lower case; ``default`` if it is none of ours."""
    base, ending = os.path.splitext(os.fspath(path).lower())
    if ending in OPENERS:
        ending = os.path.splitext(base)[1].replace(".parquet", "")
    if ending not in READERS and not default:
        raise ValueError(
            f"{path} is not a file of rows: its name should end in {', '.join(READERS)} (all but "
            f".parquet also followed by {', '.join(OPENERS)})"
        )
    return ending if ending in READERS else default


def place(path: str, number: int, row: int | None = None) -> str:
    """File, line and row, for messages; rows are counted from 0, as in the tables of results."""
    if ending_of(path, ".txt") == ".parquet":
        return f"{path}, row {number - 1}"
    name = "standard input" if path == STANDARD_INPUT else path
    return f"{name}, line {number}" + ("" if row is None else f" (row {row})")


def quoted(names: Iterable[str]) -> str:
    """Names of columns or labels, for messages."""
    listed = list(map(repr, names))
    return ", ".join(listed[:10]) + (f" and {len(listed) - 10} more" if len(listed) > 10 else "")


def _checked(row: Any, *texts: str) -> Any:
    """The row, or an error if its texts have bytes that are not UTF-8."""
    if any(not text.isascii() and NOT_UTF8.search(text) for text in texts):
        return RowError(f"is not UTF-8; {CONVERT}", "not UTF-8")
    return row


def _lines(path: str, with_ends: bool = False) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; only a line feed ends a line."""
    with open_text(path) as (file, _):
        for number, line in enumerate(file, 1):
            text = line.decode(errors="surrogateescape")
            yield number, text if with_ends else text.removesuffix("\n").removesuffix("\r")


def standard_input() -> Iterator[list[tuple[int, Row | RowError]]]:
    numbers, rest = itertools.count(1), b""
    while (part := sys.stdin.buffer.read1(1 << 16)) or rest:  # what is there, without waiting
        content, chunk = rest + part, []
        *lines, rest = content.split(b"\n") if part else (content, b"")
        for line, number in zip(lines, numbers):
            if number == 1:
                refuse_others("standard input", content)
                line = line.removeprefix(BOM)
            text = line.removesuffix(b"\r").decode(errors="surrogateescape")
            chunk.append((number, _checked({"text": text}, text)))
        yield chunk


def _txt(path: str):
    with open_text(path) as (file, _):
        if holds_json(file.peek()):
            raise ValueError(
                f"{path} holds JSON, not lines of text; objects, one a line, belong in .jsonl"
            )
    return ((number, _checked({"text": line}, line)) for number, line in _lines(path))


def _tsv(path: str):
    def rows():
        for number, line in _lines(path):
            fields = line.split("\t") if line else []
            if '"' in line and any(x[:1] == x[-1:] == '"' for x in fields):
                _warn_once(
                    "%s: fields begin and end with a quote, which has no meaning in .tsv and stays "
                    "in the text; if pandas, Excel or csv wrote the file, name it .csv", path,
                )  # fmt: skip
            yield number, _checked(fields, line)

    return _delimited(path, rows())


def _csv(path: str):
    csv.field_size_limit(1 << 30)
    lines = _lines(path, with_ends=True)
    first = list(itertools.islice(lines, FIRST_ROWS))
    excel = _OF_EXCEL.fullmatch(first[0][1]) if first else None
    if excel:
        del first[0]
    sample = [line for _, line in first]
    separator = excel[1] if excel else max(",;\t|", key=lambda x: _num_alike(sample, x))
    options = {"delimiter": separator, "strict": True}
    if _has_spaces(first, options):
        options["skipinitialspace"] = True
    rows = _csv_rows(itertools.chain(first, lines), options)
    return _delimited(path, rows, separator)


def _has_spaces(lines: list[tuple[int, str]], options: dict[str, Any]) -> bool:
    """Whether fields have their quotes after a space, as in "a", "b" (not standard, but common)."""
    readings = [
        [row for _, row in _csv_rows(iter(lines), {**options, "skipinitialspace": skips})]
        for skips in (False, True)
    ]
    bad = [sum(isinstance(row, RowError) for row in rows) for rows in readings]
    fields = [
        [x.lstrip(" ") for row in rows if not isinstance(row, RowError) for x in row]
        for rows in readings
    ]
    return fields[0] != fields[1] and bad[1] <= bad[0]


def _num_alike(lines: list[str], separator: str) -> tuple[int, int]:
    """How many rows have as many fields as the first one, and how many fields that is."""
    counts: list[int] = []
    with contextlib.suppress(csv.Error):  # such as a last line that ends within quotes
        for fields in filter(None, csv.reader(lines, delimiter=separator, strict=True)):
            counts.append(len(fields))
    return (counts.count(counts[0]), counts[0]) if counts and counts[0] > 1 else (0, 0)


def _csv_rows(lines: Iterator[tuple[int, str]], options: dict[str, Any]):
    """Rows of fields. If a row has a wrong quote, each line read for it counts as a bad row."""
    numbers: list[int] = []

    def take() -> Iterator[str]:
        for number, line in lines:
            numbers.append(number)
            yield line

    while True:
        try:
            for fields in csv.reader(take(), **options):
                yield numbers[0], _checked(fields, *fields)
                numbers.clear()
            return
        except csv.Error as error:
            problem = f"is not a row of CSV: {error}; is a quote not closed, or not doubled?"
        for number in numbers:
            yield number, RowError(f"{problem} (In .tsv quotes have no meaning.)", "not CSV")
        numbers.clear()


def _delimited(path: str, rows: Iterator[tuple[int, list[str] | RowError]], separator: str = "\t"):
    """Rows as dicts; the first row has the names. Blank lines are skipped if there are two columns
    or more."""
    names: list[str] = []
    for number, fields in rows:
        if isinstance(fields, RowError):
            if not names:
                raise ValueError(f"{place(path, number)} {fields}")
            yield number, fields
        elif fields or len(names) == 1:
            fields = fields or [""]
            if not names:
                names = [
                    x if fields.count(x) == 1 else Repeated(i, x) for i, x in enumerate(fields, 1)
                ]
                if len(fields) == 1 and {*",;\t|"} & {*fields[0]}:
                    advice = "name it .tsv if tabs separate fields, and .csv if , ; or | do"
                    raise ValueError(f"{path} begins with one field, {fields[0]!r:.80}; {advice}")
            elif len(fields) == len(names):
                yield number, dict(zip(names, fields))
            else:
                problem = f"has {len(fields)} fields, and the first row has {len(names)}"
                yield number, RowError(f"{problem}, with {separator!r} between them")


def _jsonl(path: str):
    for number, line in _lines(path):
        if line.strip():
            try:
                row = json.loads(line, object_pairs_hook=_object)
                if not isinstance(row, dict):
                    raise ValueError(f"it is {line[:30].strip()}")
            except (ValueError, RecursionError) as error:
                problem = f"is not a JSON object ({error}); for a list: jq -c '.[]' FILE"
                row = RowError(problem, "not a JSON object")
            yield number, _checked(row, line)


def _object(pairs: list[tuple[str, Any]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError(f"a key is repeated: {quoted(name for name, _ in pairs)}")
    return row


def _conll(path: str):
    """Sentences; the first token shows the separator and the number of fields.

    A line before a sentence that begins with "# " or "#<tab>" is a comment. If it has as many
    fields as a token, it is a token, unless the file begins with a comment.
    """
    split, width, has_comments, warned = str.split, 0, False, False
    for is_between, group in itertools.groupby(_lines(path), lambda x: _BETWEEN.fullmatch(x[1])):
        lines = [] if is_between else [(n, x.lstrip(" ").rstrip(" \t\r\n")) for n, x in group]
        if lines and not width:
            has_comments = lines[0][1].startswith("# ")
            first = next((x for _, x in lines if not x.startswith("#")), lines[0][1])
            if first.startswith("# "):  # nothing but comments
                continue
            split = functools.partial(re.split, "\t" if "\t" in first else "[ \t]+")
            width = len(split(first))
        while lines and lines[0][1].startswith(("# ", "#\t")):
            is_token = len(split(lines[0][1])) == width
            if is_token and not (has_comments and lines[0][1].startswith("# ")):
                break
            if is_token and not warned:
                warned = True
                _warn_once(
                    "%s: %r is a comment, as the file begins with one; separate fields by tabs if "
                    "it is a word", place(path, lines[0][0]), lines[0][1][:60],
                )  # fmt: skip
            del lines[0]
        tokens = [(n, split(x)) for n, x in lines if width != 10 or not _RANGE.fullmatch(x)]
        bad = [(number, x) for number, x in tokens if len(x) != width or "" in x]
        if bad:
            number, fields = bad[0]
            problem = f"has {len(fields)} fields, and the first token {width}"
            yield number, RowError("has an empty field" if "" in fields else problem)
        elif tokens:
            columns = zip(*(fields for _, fields in tokens))
            row = {str(i): list(column) for i, column in enumerate(columns, 1)}
            yield tokens[0][0], _checked(row, *(line for _, line in lines))


def _parquet(path: str):
    import pyarrow.parquet

    with open(path, "rb") as file:
        try:
            table = pyarrow.parquet.ParquetFile(file)
            names = table.schema_arrow.names
            if len({*names}) < len(names):
                raise ValueError(f"{path} has columns of the same name: {quoted(names)}")
            batches = table.iter_batches(1000)
            yield from enumerate((row for batch in batches for row in batch.to_pylist()), 1)
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            problem = " ".join(str(error).split())
            raise ValueError(f"{path} cannot be read as parquet: {problem}") from error


READERS: dict[str, Callable] = {
    ".tsv": _tsv,
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".conll": _conll,
    ".txt": _txt,
    ".parquet": _parquet,
}
