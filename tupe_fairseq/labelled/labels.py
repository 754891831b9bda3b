"""Labels of any spelling as symbols of fairseq's dictionary, which have no spaces."""

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote

from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, MASK

# fairseq adds these to dictionaries by itself, or takes them for its own
_RESERVED = re.compile("|".join([*map(re.escape, (*BUILT_IN_SYMBOLS, MASK)), r"madeupword\d+"]))


def label_symbol(label: str) -> str:
    """The symbol of a label: itself, unless it has spaces or ``%``, or is fairseq's own.

    Those signs are written as in web addresses, ``very good`` as ``very%20good``.
    """
    if _RESERVED.fullmatch(label) or label.startswith("#fairseq:"):
        return f"%{ord(label[0]):02X}{label[1:]}"
    return "".join(quote(c, safe="") if c.isspace() or c == "%" else c for c in label)


def label_of(symbol: str) -> str:
    """The label whose symbol this is."""
    return unquote(symbol)


def label_ids(labels: Sequence[str]) -> dict[str, int]:
    """The number of each label in the dictionary that lists them in this order."""
    return {label: number for number, label in enumerate(labels, len(BUILT_IN_SYMBOLS))}
