"""The options of a command, declared once: a field is a flag, its help, a check and an argument.

The types below take the text of a flag or a value in Python. They return the value, or raise
ValueError; ``metavar`` is how --help shows it.
"""

import functools
import importlib
import inspect
import math
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from tupe_fairseq.options import flag

#: options of earlier versions, which still work -> their names now
RENAMED = {
    "as": "model_type",
    "dict": "dictionary",
    "pretrain_dir": "vocabulary",
    "results": "report",
    "valid_fraction": "valid_share",
}
#: the choices of a vocabulary's files, as messages name them
CHOICES = "--gpt2-encoder-json and --gpt2-vocab-bpe, or --sentencepiece-model"
_FILES = "vocabulary (the files of one kind)"


def option(
    help: str | None,
    type: Callable[[Any], Any] = str,
    default: Any = MISSING,
    *,
    unset: str | None = None,
    many: bool = False,
    positional: bool = False,
    group: str | None = None,
    metavar: str | None = None,
    needs: str | None = None,
    not_with: tuple[str, ...] = (),
    recorded: bool = True,
) -> Any:
    """A field of a class of options; required if it has no default.

    Args:
        type: a type of this module, str, or bool for a switch.
        unset: what the default None stands for, for --help.
        many: whether it takes one or more values.
        needs: an option without which this one is refused.
        not_with: options that leave this one without effect, so that both are refused.
        recorded: whether it is one of the settings that a folder records.
    """
    shown = default if unset is None and default not in (MISSING, None, False, ()) else unset
    help = help if shown is None else f"{help}; default {shown}"
    metavar = metavar or getattr(type, "metavar", None)
    data = {"help": help, "type": type, "many": many, "positional": positional, "group": group}
    data |= {"metavar": metavar, "needs": needs, "not_with": not_with, "recorded": recorded}
    return field(default=default, metadata=data)


class Options:
    """The base of a dataclass of options. Its docstring is the description and the example."""

    takes_files: ClassVar[bool] = False  # @FILE on the command line stands for the flags in FILE

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is None and one.default is not MISSING:  # in Python
                value = one.default
            if value is not None or one.default is MISSING:
                value = _checked(one, value)
            setattr(self, one.name, value)
        given = {one.name: one for one in fields(self) if getattr(self, one.name) != one.default}
        for one in given.values():
            if one.metadata["needs"] not in (None, *given):
                raise ValueError(f"{_shown(one)} needs {flag(one.metadata['needs'])}")
            for other in filter(given.get, one.metadata["not_with"]):
                other = _shown(given[other])
                raise ValueError(f"{_shown(one)} has no effect with {other}; drop one")
        self.check()

    def check(self) -> None:
        """Refuse what a field cannot say, and set defaults that depend on other options."""

    def settings(self) -> dict[str, Any]:
        """The options that a folder records."""
        named = (one.name for one in fields(self) if one.metadata["recorded"])
        return {name: getattr(self, name) for name in named}


def _shown(one: Field) -> str:
    return one.metadata["metavar"] if one.metadata["positional"] else flag(one.name)


def _checked(one: Field, value: Any) -> Any:
    data, check = one.metadata, one.metadata["type"]
    try:
        if check is bool and type(value) is not bool:
            raise ValueError(f"{value!r} is neither True nor False")
        if not data["many"]:
            return check(value)
        values = [value] if isinstance(value, str | os.PathLike) else [*value]
        if not values:
            raise ValueError("it is empty")
        return [check(item) for item in values]
    except (OSError, ValueError) as error:
        raise ValueError(f"{_shown(one)}: {error}") from error


def takes(options: type) -> Callable[[Callable[[Any], Any]], Callable[..., Any]]:
    """Let a function of these options take their values by position and name, too."""

    def decorate(function: Callable[[Any], Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **values: Any) -> Any:
            if args and isinstance(args[0], options):
                return function(*args, **values)
            return function(options(*args, **renamed(values)))

        call.__signature__ = inspect.signature(options)
        return call

    return decorate


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """Arguments by their names now."""
    new: dict[str, Any] = {}
    for old, value in values.items():
        name = RENAMED.get(old, old)
        if name in new:
            raise TypeError(f"got two values for {name!r}, one by its earlier name")
        new[name] = value
    return new


# ---- Types ------------------------------------------------------------------------------------


def shown_as(metavar: str) -> Callable[[Any], Any]:
    """Give a type its name in --help."""

    def decorate(check: Any) -> Any:
        check.metavar = metavar
        return check

    return decorate


def number(
    is_right: Callable[[Any], bool], what: str, metavar: str, kind: type = float
) -> Callable[[Any], Any]:
    """A number for which ``is_right``; ``what`` says which."""

    @shown_as(metavar)
    def check(value: Any) -> Any:
        try:
            number = kind(str(value))
        except ValueError:
            number = math.nan
        if not is_right(number):
            raise ValueError(f"{value!r} is not {what}")
        return number

    return check


def at_least(limit: int, most: int = 2**31 - 1) -> Callable[[Any], int]:
    """A whole number from ``limit`` to ``most``."""
    what = f"a whole number from {limit} to {most}"
    return number(lambda x: limit <= x <= most, what, "N", int)


count = at_least(1)
positive = number(lambda x: 0 < x < math.inf, "a number above 0", "X")
fraction = number(lambda x: 0 <= x < 1, "a number of at least 0 and below 1", "P")
share = number(lambda x: 0 < x < 1, "a number above 0 and below 1", "SHARE")


def one_of(*names: str) -> Callable[[Any], str]:
    """One of these names."""

    @shown_as("{" + ",".join(names) + "}")
    def check(value: Any) -> str:
        if value not in names:
            raise ValueError(f"{value!r} is none of {', '.join(names)}")
        return value

    return check


def comma_list(one: Callable[[Any], Any]) -> Callable[[Any], list]:
    """Distinct values, separated by commas."""

    @shown_as("LIST")
    def check(value: Any) -> list:
        parts = value.split(",") if isinstance(value, str) else value
        values = [one(part.strip() if isinstance(part, str) else part) for part in parts]
        if not values:
            raise ValueError("it is empty")
        for item in values:
            if values.count(item) > 1:
                raise ValueError(f"{item} is listed twice in {value!r}")
        return values

    return check


@shown_as("FLAGS")
def arguments(value: Any) -> tuple[str, ...]:
    """The arguments of another command; text is split as a shell splits it."""
    try:
        return tuple(shlex.split(value) if isinstance(value, str) else map(str, value))
    except ValueError as error:
        raise ValueError(f"{value}: {error}") from error


@shown_as("DIR")
def user_dir(value: Any) -> str:
    """The absolute path of a package, imported as fairseq does with its --user-dir.

    It is imported at once, because it registers names that other options take.
    """
    path = os.path.abspath(folder(value))
    parent, name = os.path.split(path)
    sys.path.insert(0, parent)
    module = importlib.import_module(name)
    if path not in getattr(module, "__path__", ()):
        raise ValueError(f"{path}: there is another module {name}; rename the folder")
    return path


@shown_as("PATH")
def existing(value: Any) -> str:
    """A file or folder that exists."""
    if not os.path.exists(value):
        raise ValueError(f"{value} does not exist")
    return os.fspath(value)


@shown_as("FILE")
def file(value: Any) -> str:
    """An existing file."""
    if not os.path.isfile(existing(value)):
        raise ValueError(f"{value} is not a file")
    return os.fspath(value)


@shown_as("FILE")
def rows_file(value: Any) -> str:
    """An existing file of rows."""
    from tupe_fairseq.data.row_formats import ending_of

    ending_of(file(value))
    return os.fspath(value)


def folder_with(*names: str) -> Callable[[Any], str]:
    """An existing folder that has these files."""

    @shown_as("DIR")
    def check(value: Any) -> str:
        if not os.path.isdir(value):
            raise ValueError(f"{value} is not a folder")
        for name in names:
            if not os.path.exists(os.path.join(value, name)):
                raise ValueError(f"{value} has no {name}")
        return os.fspath(value)

    return check


folder = folder_with()


@shown_as("DIR")
def writable(value: Any) -> str:
    """A folder that is writable or can be created."""
    if not os.fspath(value):
        raise ValueError("it is empty")
    place = Path(value).absolute()
    while not os.path.lexists(place):
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        problem = "not writable" if place.is_dir() else "not a folder"
        raise ValueError(f"{value} cannot be written: {place} is {problem}")
    return os.fspath(value)


def no_colon(one: Callable[[Any], str]) -> Callable[[Any], str]:
    """A path without a colon, because fairseq splits paths at colons."""

    @shown_as(one.metavar)
    def check(value: Any) -> str:
        if ":" in os.path.abspath(value):
            raise ValueError(f"{value} contains ':', at which fairseq splits paths")
        return one(value)

    return check


def output_file(*endings: str) -> Callable[[Any], str]:
    """A file with one of these endings, in a folder that is writable or can be created."""

    @shown_as("OUT")
    def check(value: Any) -> str:
        path = os.fspath(value)
        if not path.lower().endswith(endings):
            raise ValueError(f"{path} should end in {' or '.join(endings)}")
        if os.path.isdir(path):
            raise ValueError(f"{path} is a folder")
        writable(os.path.dirname(path) or ".")
        return path

    return check


# ---- Options that several commands share --------------------------------------------------------


@dataclass(kw_only=True)
class UserDir(Options):
    user_dir: str | None = option(
        "a package with your encodings or kinds of tasks",
        user_dir, None, recorded=False,
    )  # fmt: skip


@dataclass(kw_only=True)
class VocabularyFiles(Options):
    """The files of a vocabulary, if no folder has them."""

    gpt2_encoder_json: str | None = option(
        "GPT-2's encoder.json",
        file, None, group=_FILES, needs="gpt2_vocab_bpe", recorded=False,
    )  # fmt: skip
    gpt2_vocab_bpe: str | None = option(
        "GPT-2's vocab.bpe",
        file, None, group=_FILES, needs="gpt2_encoder_json", recorded=False,
    )  # fmt: skip
    sentencepiece_model: str | None = option(
        "the SentencePiece model that encoded the text",
        file, None, group=_FILES, not_with=("gpt2_encoder_json",), recorded=False,
    )  # fmt: skip

    def vocabulary_files(self) -> tuple[str, list[str]] | None:
        """The kind of the vocabulary and its files; None if none is given."""
        if self.gpt2_encoder_json and self.gpt2_vocab_bpe:
            return "gpt2", [self.gpt2_encoder_json, self.gpt2_vocab_bpe]
        return ("sentencepiece", [self.sentencepiece_model]) if self.sentencepiece_model else None
