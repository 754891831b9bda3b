"""The names of the schemes, and the numbers of their options, for what lists them without torch."""

from typing import Iterable

TUPE = "tupe"
LEARNED = "learned"
SINUSOIDAL = "sinusoidal"
NONE = "none"
TRANSFORMER_XL = "transformer-xl"
ENFORMER = "enformer"
ROPE = "rope"
ALIBI = "alibi"
SHAW = "shaw"
DISENTANGLED = "disentangled"
#: what --position-encoding may be; catalogue.py has the class of each
SCHEME_NAMES = (
    TUPE, LEARNED, SINUSOIDAL, NONE, TRANSFORMER_XL, ENFORMER, ROPE, ALIBI, SHAW, DISENTANGLED,
)  # fmt: skip

# T5's, and those of the TUPE authors' code
NUM_BUCKETS = 32
MAX_DISTANCE = 128
# shaw's
MAX_REL_POS = 16

#: what new rows of a longer table of positions can be made of
TABLE_METHODS = ("interpolate", "tile", "zero")


def check_scheme_name(name: str, known: Iterable[str] = SCHEME_NAMES) -> None:
    """Refuse a name that no scheme has.

    Args:
        known (iterable of str): names of schemes, also of those that a user has added.
    Raises:
        ValueError: the message lists the known ones.
    """
    known = list(known)
    if name not in known:
        raise ValueError(
            f"unknown position encoding {name!r}; --position-encoding is one of {', '.join(known)}"
        )
