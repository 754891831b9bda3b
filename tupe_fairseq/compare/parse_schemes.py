"""Parses --schemes into the schemes of a comparison."""

import shlex
from dataclasses import dataclass

from tupe_fairseq import options

#: the flags of a scheme, and whether each takes a number
FLAGS: dict[str, bool] = {
    options.flag(name): option.default is None for name, option in options.POSITION_OPTIONS.items()
}


@dataclass(frozen=True)
class Scheme:
    """A position encoding with its options.

    Args:
        name (str): one of ``POSITION_ENCODINGS``.
        flags (tuple of str): its flags of fairseq-train, in the order of ``FLAGS``.
    """

    name: str
    flags: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """As it is written in --schemes: ``tupe --rel-pos``."""
        return " ".join((self.name, *self.flags))

    @property
    def words(self) -> tuple[str, ...]:
        """The flags of fairseq-train."""
        return ("--position-encoding", self.name, *self.flags)

    @property
    def folder(self) -> str:
        """The label as a file name: ``tupe_rel-pos``."""
        return self.label.replace(" --", "_").replace(" ", "-")


def parse_scheme(text: str, flag: str = "--schemes") -> Scheme:
    """Read one scheme: a name, then flags of its own.

    Raises:
        ValueError: if the name is unknown or anything but its flags follows; the message
            names ``flag`` and the scheme.
    """
    where = f"{flag} {text.strip()!r}"
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    if not words:
        raise ValueError(f"{where}: there is no scheme; give the name of a position encoding")
    if words[0] not in options.POSITION_ENCODINGS:
        raise ValueError(
            f"{where}: unknown position encoding {words[0]!r}; --position-encoding is one of "
            f"{', '.join(options.POSITION_ENCODINGS)}"
        )
    given: dict[str, tuple[str, ...]] = {}
    rest = iter(words[1:])
    for word in rest:
        if word not in FLAGS:
            raise ValueError(
                f"{where}: {word} is not a flag of a scheme; the flags are {', '.join(FLAGS)}. "
                "Flags for all schemes belong in --train-flags"
            )
        if word in given:
            raise ValueError(f"{where}: {word} is given twice")
        given[word] = (word, _number(where, word, next(rest, None))) if FLAGS[word] else (word,)
    return Scheme(words[0], tuple(word for name in FLAGS for word in given.get(name, ())))


def _number(where, flag, text) -> str:
    if text is None or not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ValueError(f"{where}: {flag} takes a whole number above 0, not {text!r}")
    return str(int(text))


def parse_schemes(text: str) -> dict[Scheme, str | None]:
    """Read --schemes: schemes separated by semicolons, each once, with its own seeds or without.

    Returns:
        dict: each scheme to what follows its "@"; None if there is none.
    Raises:
        ValueError: as :func:`parse_scheme`, or if one is listed twice.
    """
    schemes: dict[Scheme, str | None] = {}
    # a semicolon at the end does not start another scheme
    for part in text.strip().rstrip(";").split(";"):
        name, at, seeds = part.partition("@")
        scheme = parse_scheme(name)
        if scheme in schemes:
            raise ValueError(f"--schemes lists {scheme.label!r} twice")
        schemes[scheme] = seeds if at else None
    return schemes
