"""Numbers on the command line; messages name flag, value and limit."""

import math
import operator
from collections.abc import Callable


def in_range(
    flag: str,
    value: float,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
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


def numbers(flag: str, text: str, convert: Callable, is_allowed: Callable, kind: str) -> list:
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
    values: list = []
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


def seeds(text: str, flag: str = "--seeds") -> tuple[int, ...]:
    """Read seeds: whole numbers from 1 to 2^32 - 1, because fairseq seeds numpy with them."""
    kind = "whole number from 1 to 4294967295"
    return tuple(numbers(flag, text, int, lambda seed: 0 < seed < 2**32, kind))


def learning_rates(text: str, flag: str = "--lrs") -> tuple[float, ...]:
    """Read learning rates: numbers above 0."""
    kind = "number above 0"
    return tuple(numbers(flag, text, float, lambda lr: 0 < lr < math.inf, kind))
