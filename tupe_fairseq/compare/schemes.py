"""Position encodings with their flags, as --schemes lists them: ``learned; tupe --rel-pos``."""

import shlex
from dataclasses import dataclass
from typing import Any

from tupe_fairseq import options
from tupe_fairseq.flags import shown_as

#: the flags of a scheme, and what each takes, see ``options.violation``
FLAGS: dict[str, Any] = {
    options.flag(name): option.metadata["allowed"]
    for name, option in options.POSITION_OPTIONS.items()
}


@dataclass(frozen=True)
class Scheme:
    """A position encoding and its flags of fairseq-train, in the order of ``FLAGS``."""

    name: str
    flags: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The scheme as it is written in --schemes: ``tupe --rel-pos``."""
        return " ".join((self.name, *self.flags))

    @property
    def words(self) -> tuple[str, ...]:
        """The flags of fairseq-train."""
        return ("--position-encoding", self.name, *self.flags)

    @property
    def folder(self) -> str:
        """The label as a file name: ``tupe_rel-pos``."""
        return self.label.replace(" --", "_").replace(" ", "-")


def _number(text: str) -> int | float | str:
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text


def parse_scheme(text: str) -> Scheme:
    """One scheme; raises ValueError."""
    if not text.strip():
        raise ValueError("a scheme is missing before or after a semicolon")
    try:
        name, *words = shlex.split(text)
        values: dict[str, Any] = {}
        while words:
            flag, equals, value = words.pop(0).partition("=")
            if flag not in FLAGS:
                raise ValueError(f"unrecognized arguments: {flag}")
            if FLAGS[flag] is not bool:
                value = value if equals or not words else words.pop(0)
            values[flag] = True if FLAGS[flag] is bool and not equals else _number(value)
            if must_be := options.violation(values[flag], FLAGS[flag]):
                raise ValueError(f"{flag} {value} must be {must_be}")
    except ValueError as error:  # also of shlex: a quote is not closed
        advice = f"flags of schemes: {', '.join(FLAGS)}; flags for all belong in --train-flags"
        raise ValueError(f"{text.strip()!r}: {error}; {advice}") from error
    flags: list[str] = []
    for flag in filter(values.__contains__, FLAGS):
        flags += [flag] if values[flag] is True else [flag, str(values[flag])]
    return Scheme(name, tuple(flags))


@shown_as("LIST")
def schemes(value: Any) -> list[Scheme]:
    """Schemes separated by semicolons, each once."""
    parts = value.strip().rstrip(";").split(";") if isinstance(value, str) else value
    listed = [part if isinstance(part, Scheme) else parse_scheme(part) for part in parts]
    for scheme in listed:
        if listed.count(scheme) > 1:
            raise ValueError(f"{scheme.label!r} is listed twice")
    return listed
