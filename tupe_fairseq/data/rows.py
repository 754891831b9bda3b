"""Files of rows: .tsv, .csv, .jsonl, .conll, .txt (also compressed) and .parquet.

A row is a dict of the values as the file has them. In .conll a row is a sentence, with a list for
each column. In .txt and in "-", standard input, it is a line with one text.
"""

import collections
import contextlib
import csv
import functools
import io
import itertools
import json
import logging
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import IO, Any

from tupe_fairseq.data.text_files import BOM, CONVERT, OPENERS, holds_json, open_text, refuse_others

Row = dict[str, Any]
STANDARD_INPUT = "-"
CHUNK_ROWS = 8192

HALF_CHARACTERS = re.compile("[\ud800-\udfff]")  # surrogates: JSON can escape them, UTF-8 has none
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what surrogateescape makes of invalid bytes
# lists, tuples and sets as Python and JSON write them; and anything in brackets
_LIST = re.compile(r"""\s*(?:[\[({]\s*(['"]).*\1,?\s*[])}]|\[[\s\d,]*\])\s*""", re.DOTALL)
_IN_BRACKETS = re.compile(r"\s*(?:\[.*\]|\{.*\})\s*|" + _LIST.pattern, re.DOTALL)
_WORD = re.compile("[^ \t\r\n]+")
# of CoNLL-U, with its ten columns: a multiword token, whose words follow, or an empty node
_RANGE = re.compile(r"\d+[-.]\d+(\t[^\t]+){9}")
# a first line that tells Excel the separator
_OF_EXCEL = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
_BETWEEN = re.compile(r"\s*(?:(?:-DOCSTART-|#(?:begin|end) document)(?:\s.*)?)?", re.DOTALL)
# how many rows (lines of .csv) are read to find the columns and the separator
_FIRST_ROWS = 1000

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


def ending_of(path: str, default: str = "") -> str:
    """The extension that names the format, in lower case; ``default`` if it is none of ours."""
    base, ending = os.path.splitext(os.fspath(path).lower())
    if ending in OPENERS:
        ending = os.path.splitext(base)[1].replace(".parquet", "")
    if ending not in _READERS and not default:
        raise ValueError(
            f"{path} is not a file of rows: its name should end in {', '.join(_READERS)} (all but "
            f".parquet also followed by {', '.join(OPENERS)})"
        )
    return ending if ending in _READERS else default


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
    rows = list(itertools.islice(_READERS[ending_of(path)](path), _FIRST_ROWS))
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
    index, chunks = itertools.count(), _standard_input()
    if path != STANDARD_INPUT:
        rows = _READERS[ending or ending_of(path)](path)
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


def _checked(row: Any, *texts: str) -> Any:
    """The row, or an error if its texts have bytes that are not UTF-8."""
    if any(not text.isascii() and _NOT_UTF8.search(text) for text in texts):
        return RowError(f"is not UTF-8; {CONVERT}", "not UTF-8")
    return row


def _lines(path: str, with_ends: bool = False) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; only a line feed ends a line."""
    with open_text(path) as (file, _):
        for number, line in enumerate(file, 1):
            text = line.decode(errors="surrogateescape")
            yield number, text if with_ends else text.removesuffix("\n").removesuffix("\r")


def _standard_input() -> Iterator[list[tuple[int, Row | RowError]]]:
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
    first = list(itertools.islice(lines, _FIRST_ROWS))
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


_READERS: dict[str, Callable] = {
    ".tsv": _tsv,
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".conll": _conll,
    ".txt": _txt,
    ".parquet": _parquet,
}


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
    if _NOT_UTF8.search(text):
        raise RowError(f"has {value[:20]!r}, which is not text; leave that column out", "bytes")
    return text


def _csv_line(fields: list[str]) -> str:
    line = io.StringIO(newline="")
    # \r\n: before Python 3.13, a field with \r is only quoted if the line end has a \r, too
    csv.writer(line, lineterminator="\r\n").writerow(fields)
    return line.getvalue()[:-2]
