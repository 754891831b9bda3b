"""Reading lists of numbers from the command line."""

from typing import Callable, List, Tuple


def parse_numbers(flag: str, text: str, convert: Callable, allowed: Callable, kind: str) -> List:
    """Read numbers with commas between them, each once.

    Args:
        flag (str): the flag, for the message.
        text (str): what it was given.
        convert (callable): from text to a number, or ValueError.
        allowed (callable): whether a number may be.
        kind (str): what is allowed, in words.
    Raises:
        ValueError: if it is anything else; the message names the flag and the bad part.
    """
    values = []
    for part in text.split(","):
        try:
            value = convert(part)
        except ValueError:
            value = None
        if value is None or not allowed(value):
            raise ValueError(f"{flag} {text}: {part!r} is not a {kind}")
        if value in values:
            raise ValueError(f"{flag} {text}: {part} is listed twice")
        values.append(value)
    return values


def parse_seeds(text: str) -> Tuple[int, ...]:
    """Read --seeds, whole numbers from 1 to 2^32 - 1 with commas between them, each once.

    Raises:
        ValueError: if it is anything else; the message names the flag and the bad part.
    """
    # numpy, which fairseq seeds with it, takes 32 bits
    kind = "whole number from 1 to 4294967295"
    return tuple(parse_numbers("--seeds", text, int, lambda seed: 0 < seed < 2**32, kind))
