"""Checks of what was given on the command line; messages name flag, value and limit."""

import math
import operator
import os
from typing import Callable, Iterable, List, Optional, Tuple


def in_range(
    flag: str,
    value: float,
    *,
    at_least: Optional[float] = None,
    above: Optional[float] = None,
    at_most: Optional[float] = None,
    below: Optional[float] = None,
) -> None:
    """Refuse a number outside its limits, infinite ones included.

    Raises:
        ValueError: if ``value`` is not within all limits that are given.
    """
    limits = {
        "at least": (at_least, operator.ge),
        "above": (above, operator.gt),
        "at most": (at_most, operator.le),
        "below": (below, operator.lt),
    }
    given = {word: pair for word, pair in limits.items() if pair[0] is not None}
    if not (math.isfinite(value) and all(holds(value, limit) for limit, holds in given.values())):
        wanted = " and ".join(f"{word} {limit}" for word, (limit, _) in given.items())
        raise ValueError(f"{flag} ({value}) must be {wanted}")


def no_separators(flag: str, path: str, separators: str = ":") -> None:
    """Refuse a path that fairseq would take for a list of paths.

    Raises:
        ValueError: if one of the separators is in it.
    """
    for sign in separators:
        if sign in path:
            raise ValueError(
                f"{flag} {path} contains {sign!r}, at which fairseq splits lists; use another path"
            )


def numbers(flag: str, text: str, convert: Callable, is_allowed: Callable, kind: str) -> List:
    """Read numbers separated by commas, each only once.

    Args:
        flag (str): the flag.
        text (str): what it was given.
        convert (callable): makes a number of a part of the text, or raises ValueError.
        is_allowed (callable): whether a number is allowed.
        kind (str): what is allowed, in words.
    Raises:
        ValueError: if a part is not such a number, or is there twice.
    """
    values: List = []
    for part in text.split(","):
        try:
            value = convert(part)
        except ValueError:
            value = None
        if value is None or not is_allowed(value):
            raise ValueError(f"{flag} {text}: {part!r} is not a {kind}")
        if value in values:
            raise ValueError(f"{flag} {text}: {part} is listed twice")
        values.append(value)
    return values


def seeds(text: str, flag: str = "--seeds") -> Tuple[int, ...]:
    """Read seeds: whole numbers from 1 to 2^32 - 1, because fairseq seeds numpy with them."""
    kind = "whole number from 1 to 4294967295"
    return tuple(numbers(flag, text, int, lambda seed: 0 < seed < 2**32, kind))


def learning_rates(text: str, flag: str = "--lrs") -> Tuple[float, ...]:
    """Read learning rates: numbers above 0."""
    kind = "number above 0"
    return tuple(numbers(flag, text, float, lambda lr: 0 < lr < math.inf, kind))


def can_be_written(flag: str, folder: str) -> None:
    """Refuse a folder that cannot be made or written to, without making it.

    Raises:
        ValueError: the message names the flag, and what is in the way.
    """
    place = os.path.abspath(folder)
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        raise ValueError(f"{flag} {folder}: {place} is not a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ValueError(f"{flag} {folder}: {place} may not be written to; give another folder")


def can_be_output(flag: str, path: str, inputs: Iterable[Optional[str]]) -> None:
    """Refuse a file that cannot be written, or would replace what is read.

    Args:
        flag (str): the flag.
        path (str): what it was given.
        inputs (iterable of str): the files that are read; None stands for none.
    Raises:
        ValueError: the message names the flag, and what is in the way.
    """
    if os.path.isdir(path):
        raise ValueError(f"{flag} {path} is a folder")
    for source in inputs:
        both = source is not None and os.path.exists(source) and os.path.exists(path)
        if both and os.path.samefile(source, path):
            raise ValueError(f"{flag} {path} is an input, which would be replaced")
    can_be_written(flag, os.path.dirname(path) or ".")
