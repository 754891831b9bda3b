"""Finds a name that is listed twice, in time that grows with the list and no faster."""

from collections.abc import Iterable


def first_repeated(names: Iterable[str]) -> str | None:
    """The first name that was there before, None if all differ.

    Lists of columns and symbols are as long as a file makes them.
    """
    seen = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
