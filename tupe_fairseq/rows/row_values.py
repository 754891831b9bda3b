"""Makes texts of the values of JSON and parquet."""

import json
from typing import Any

from tupe_fairseq.rows.row_file import Value

_KINDS = {type(None): "null", list: "a list", dict: "an object", bytes: "bytes"}


def as_value(value: Any, place: str, column: str) -> Value:
    """A text as it is, a number or a truth value as JSON writes it, a list of these as a list.

    Args:
        value: what the file has.
        place (str), column (str): where, for messages.
    Raises:
        ValueError: if it is null, an object or something else.
    """
    if isinstance(value, list):
        return [_as_text(one, place, f"a list with {{}} in column {column!r}") for one in value]
    return _as_text(value, place, f"{{}} in column {column!r}")


def _as_text(value: Any, place: str, found: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    kind = _KINDS.get(type(value), f"a {type(value).__name__}")
    raise ValueError(f"{place} has {found.format(kind)}, which is neither text nor number")
