"""BIO tags: B-x begins an entity of type x, I-x is inside one, O is outside of all."""

import re
from collections.abc import Iterable, Sequence

_TAG = re.compile(r"O|[BI]-.+", re.DOTALL)


def are_bio(tags: Iterable[str]) -> bool:
    """Whether tags, each once, look like BIO: all of the three forms, and not all O."""
    found = set(tags)
    return all(map(_TAG.fullmatch, found)) and found != {"O"}


def first_break(tags: Sequence[str]) -> int | None:
    """The place, from 0, of the first tag of a sentence that no BIO sequence has there.

    That is a tag of another form, or I-x that does not follow B-x or I-x; None if there is none.
    """
    before = "O"
    for place, tag in enumerate(tags):
        follows = before != "O" and before[2:] == tag[2:]
        if not _TAG.fullmatch(tag) or (tag[0] == "I" and not follows):
            return place
        before = tag
    return None
