"""What can happen to any file, and to any JSON, whatever they are for."""

import copy
import json
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

from case import REFUSED, SAME, VALUE

DEEP = "[" * 200_000
#: what stands in for a value of another type; json.dumps writes NaN and Infinity as Python does
ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2.5, 2**63, 10**400, math.nan, math.inf, "", "x", "../x", "\x1b[2J", [], [1],
    {}, {"x": 1},
)  # fmt: skip


def flips(content: bytes, count: int, draw: random.Random) -> Iterator[tuple[str, bytes]]:
    """One bit changed, at places drawn."""
    for _ in range(count if content else 0):
        place, bit = draw.randrange(len(content)), draw.randrange(8)
        changed = bytearray(content)
        changed[place] ^= 1 << bit
        yield f"bit {bit} of byte {place}", bytes(changed)


def cuts(content: bytes, boundaries: Sequence[int]) -> Iterator[tuple[str, bytes]]:
    """The beginning alone: up to each boundary, and to a byte before and after it."""
    around = {place + more for place in boundaries for more in (-1, 0, 1)}
    for place in sorted(place for place in around if 0 <= place < len(content)):
        yield f"cut to {place} of {len(content)} bytes", content[:place]


def no_such_file(content: bytes) -> Iterator[tuple[str, bytes, str]]:
    """What is no file of this kind at all, or more than one, and what would be right."""
    yield "empty", b"", REFUSED
    yield "zeros", bytes(len(content)), REFUSED
    yield "reversed", content[::-1], REFUSED
    yield "twice", content + content, SAME
    yield "something behind it", content + b"\0" * 100, SAME
    yield "something before it", b"\0" * 100 + content, REFUSED


def no_such_json(content: bytes) -> Iterator[tuple[str, bytes, str]]:
    """As above, for JSON."""
    text = content.decode()
    for name, other in (("null", "null"), ("list", "[]"), ("number", "3"), ("text", '"x"'),
                        ("deep", DEEP), ("object", "{}")):  # fmt: skip
        yield f"JSON {name}", other.encode(), REFUSED
    yield "JSON in UTF-16", text.encode("utf-16"), REFUSED
    yield "JSON of bytes", content.replace(b'"', b'"\xff', 1), REFUSED
    yield "JSON cut", content[: len(content) // 2], REFUSED
    yield "JSON without an end", content.rstrip()[:-1], REFUSED
    yield "JSON and more", content + b"{}", REFUSED
    yield "JSON empty", b"", REFUSED


def json_fields(content: bytes, draw: random.Random, each: int) -> Iterator[tuple[str, bytes, str]]:
    """Each field gone, and with some values of other types; ``each`` of these per field."""
    sound = json.loads(content)
    for place in _places(sound):
        name = ".".join(map(str, place))
        yield f"{name} missing", _dumped(_without(sound, place)), VALUE
        for value in draw.sample(ODD_VALUES, each):
            # a number for a number may be what another run had
            before = _at(sound, place)
            numbers = {type(before), type(value)} <= {int, float, bool}
            right = VALUE if numbers or isinstance(before, type(value)) else SAME
            shown = repr(value) if value != 10**400 else "10**400"
            yield f"{name} is {shown}", _dumped(_with(sound, place, value)), right


def _places(sound: Any, above: tuple = ()) -> Iterator[tuple]:
    """Every field of nested objects, and the first of every list."""
    if isinstance(sound, dict):
        for name, value in sound.items():
            yield (*above, name)
            yield from _places(value, (*above, name))
    elif isinstance(sound, list) and sound:
        yield from _places(sound[0], (*above, 0))


def _at(sound: Any, place: tuple) -> Any:
    for name in place:
        sound = sound[name]
    return sound


def _with(sound: Any, place: tuple, value: Any) -> Any:
    changed = copy.deepcopy(sound)
    _at(changed, place[:-1])[place[-1]] = value
    return changed


def _without(sound: Any, place: tuple) -> Any:
    changed = copy.deepcopy(sound)
    del _at(changed, place[:-1])[place[-1]]
    return changed


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def thinned(found: Sequence, most: int, draw: random.Random) -> Sequence:
    """At most so many of them, drawn, in their order."""
    if len(found) <= most:
        return found
    return [found[place] for place in sorted(draw.sample(range(len(found)), most))]


def named(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """For loops that read like the other generators."""
    yield from values.items()
