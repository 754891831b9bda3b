"""Reads JSON that a command of ours wrote, and that anything may have happened to since."""

from typing import Any

from tupe_fairseq.files.atomic import read_json

_MOST = 1e300
_NAMES = {
    bool: "true or false",
    int: "a whole number of 0 or more",
    float: "a finite number",
    str: "a text",
    list: "a list",
    dict: "an object",
    None: "null",
}


def read_record(path: str, shape: Any) -> Any:
    """Read a JSON file and check it against a shape.

    A shape is

    - ``bool``, ``int`` (none of ours is negative), ``float`` (finite; whole ones, too), ``str``,
      ``list`` or ``dict``: a value of this type; or ``None``;
    - ``{"name": shape, ...}``: an object with these names, whatever else it has; a name may be
      missing if its shape allows None;
    - ``{str: shape, ...}``: an object in which all other names have this shape;
    - ``[shape]``: a list of any length;
    - a tuple of shapes: one of them.

    Args:
        path (str): the file.
        shape: what it must hold.
    Returns:
        the content.
    Raises:
        OSError: if it cannot be read.
        ValueError: if it is not JSON, or not of this shape; the message names the file, and the
            first value that is wrong.
    """
    content = read_json(path)
    check_record(content, shape, path)
    return content


def check_record(content: Any, shape: Any, path: str, name: str = "") -> None:
    """Check content, or the part of this name, that was read from ``path`` by other means.

    Raises:
        ValueError: as :func:`read_record`.
    """
    wrong = _first_wrong(content, shape, name)
    if wrong:
        raise ValueError(f"{path} is damaged, or of another program: {wrong}")


def _first_wrong(value: Any, shape: Any, place: str) -> str:
    """What is wrong, in words; empty if nothing is."""
    if isinstance(shape, tuple):
        found = [_first_wrong(value, one, place) for one in shape]
        # of several shapes the first one is the usual one
        return "" if "" in found else found[0]
    if isinstance(shape, dict) and isinstance(value, dict):
        named = {**(dict.fromkeys(value, shape[str]) if str in shape else {}), **shape}
        parts = [(name, value.get(name), kind) for name, kind in named.items() if name is not str]
        found = (_first_wrong(inner, kind, f"{place}.{name}") for name, inner, kind in parts)
        return next(filter(None, found), "")
    if isinstance(shape, list) and isinstance(value, list):
        found = (_first_wrong(one, shape[0], f"{place}[{i}]") for i, one in enumerate(value))
        return next(filter(None, found), "")
    if _is(value, shape):
        return ""
    kind = shape if shape in (None, *_NAMES) else type(shape)
    name = place.lstrip(".") or "its content"
    if value is None:
        return f"{name} is missing; it should be {_NAMES[kind]}"
    written = repr(value)
    written = written if len(written) <= 50 else written[:50] + "..."
    return f"{name} is {written}, not {_NAMES[kind]}"


def _is(value: Any, kind: Any) -> bool:
    if kind is None:
        return value is None
    if isinstance(value, bool):  # which Python takes for a number
        return kind is bool
    if kind is int:
        return isinstance(value, int) and value >= 0
    if kind is float:
        # a whole number may be beyond all floats
        return isinstance(value, (int, float)) and -_MOST < value < _MOST
    return isinstance(kind, type) and isinstance(value, kind)
