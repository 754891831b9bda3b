"""Makes texts of the values of JSON and parquet."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tupe_fairseq.rows.row_file import BadRow, Row, Value

_KINDS = {type(None): "null", list: "a list", dict: "an object", bytes: "bytes"}
# JSON can name half of a character beyond U+FFFF, which no file of text can hold
_HALVES = re.compile("[\ud800-\udfff]")


def as_row(number: int, place: str, columns: Sequence[str], values: Iterable[Any]) -> Row | BadRow:
    """A text as it is, a number or a truth value as JSON writes it, a list of these as a list.

    Args:
        number (int), place (str): which row, and the same for messages.
        columns (sequence of str): their names.
        values (iterable): what the file has in them.
    Returns:
        BadRow if a value is null, an object or something else.
    """
    try:
        return Row(number, [_as_value(*pair, place) for pair in zip(values, columns)])
    except BadRow as bad:
        return bad


def _as_value(value: Any, column: str, place: str) -> Value:
    if isinstance(value, list):
        return [_as_text(one, place, f"a list with {{}} in column {column!r}") for one in value]
    return _as_text(value, place, f"{{}} in column {column!r}")


def _as_text(value: Any, place: str, found: str) -> str:
    if isinstance(value, str):
        return value if value.isascii() else _HALVES.sub("", value)
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    kind = _KINDS.get(type(value), f"a {type(value).__name__}")
    raise BadRow(
        f"{place} has {found.format(kind)}, which is neither text nor number",
        "neither text nor number",
    )
