"""Position encodings with their flags, as --schemes lists them: ``learned; tupe --rel-pos``."""

import argparse
import shlex
from dataclasses import dataclass
from typing import Any

from tupe_fairseq import options

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


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def parse_scheme(text: str) -> Scheme:
    """A type for argparse: one scheme."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("name")
    for flag, allowed in FLAGS.items():
        kind: Any = {"action": "store_true"} if allowed is bool else {"type": _number}
        parser.add_argument(flag, **kind)

    def refuse(message: str):
        advice = f"flags of schemes: {', '.join(FLAGS)}; flags for all belong in --train-flags"
        raise argparse.ArgumentTypeError(f"{text.strip()!r}: {message}; {advice}")

    parser.error = refuse
    if not text.strip():
        raise argparse.ArgumentTypeError("a scheme is missing before or after a semicolon")
    try:
        parsed = vars(parser.parse_args(shlex.split(text)))
    except ValueError as error:  # of shlex: a quote is not closed
        refuse(str(error))
    flags: list[str] = []
    for flag, allowed in FLAGS.items():
        value = parsed[flag[2:].replace("-", "_")]
        if value is None or value is False:
            continue
        if words := options.violation(value, allowed):
            refuse(f"{flag} {value} must be {words}")
        flags += [flag] if allowed is bool else [flag, str(value)]
    return Scheme(parsed["name"], tuple(flags))


def parse_schemes(text: str) -> list[Scheme]:
    """A type for argparse: schemes separated by semicolons, each once."""
    schemes = [parse_scheme(part) for part in text.strip().rstrip(";").split(";")]
    for scheme in schemes:
        if schemes.count(scheme) > 1:
            raise argparse.ArgumentTypeError(f"{scheme.label!r} is listed twice")
    return schemes
