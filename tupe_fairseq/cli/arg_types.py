"""Types for argparse, which refuses a wrong value with the name of its flag."""

import argparse
import math
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any


def at_least(limit: int, most: int = 2**31 - 1) -> Callable[[str], int]:
    """A whole number from ``limit`` to ``most``."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = limit - 1
        if not limit <= value <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number from {limit} to {most}"
            )
        return value

    return parse


count = at_least(1)


def number(is_right: Callable[[float], bool], what: str) -> Callable[[str], float]:
    """A number for which ``is_right``; ``what`` says which."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not is_right(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return parse


positive = number(lambda x: 0 < x < math.inf, "a number above 0")
fraction = number(lambda x: 0 <= x < 1, "a number of at least 0 and below 1")


def one_of(*names: str) -> Callable[[str], str]:
    """One of these names, as an item of a list."""

    def parse(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(names)}")
        return text

    return parse


def comma_list(one: Callable[[str], Any]) -> Callable[[str], list]:
    """Distinct values, separated by commas."""

    def parse(text: str) -> list:
        values = [one(part.strip()) for part in text.split(",")]
        for value in values:
            if values.count(value) > 1:
                raise argparse.ArgumentTypeError(f"{value} is listed twice in {text!r}")
        return values

    return parse


def user_dir(text: str) -> str:
    """A package, imported at once: it registers names that other flags take."""
    from tupe_fairseq.runs.process import import_user_dir

    try:
        return import_user_dir(folder(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def arguments(text: str) -> tuple[str, ...]:
    """The arguments of another command, split as a shell splits them."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from error


def existing(text: str) -> str:
    """A file or folder that exists."""
    if not os.path.exists(text):
        raise argparse.ArgumentTypeError(f"{text} does not exist")
    return text


def file(text: str) -> str:
    """An existing file."""
    if not os.path.isfile(existing(text)):
        raise argparse.ArgumentTypeError(f"{text} is not a file")
    return text


def checkpoint(text: str) -> str:
    """An existing checkpoint, or a folder that has one."""
    from tupe_fairseq.checkpoint.find import find_checkpoint

    try:
        return file(find_checkpoint(existing(text)))
    except OSError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def rows_file(text: str) -> str:
    """An existing file of rows."""
    from tupe_fairseq.data.rows import ending_of

    try:
        ending_of(file(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def folder_with(*names: str) -> Callable[[str], str]:
    """An existing folder that has these files."""

    def parse(text: str) -> str:
        if not os.path.isdir(text):
            raise argparse.ArgumentTypeError(f"{text} is not a folder")
        for name in names:
            if not os.path.exists(os.path.join(text, name)):
                raise argparse.ArgumentTypeError(f"{text} has no {name}")
        return text

    return parse


folder = folder_with()


def writable(text: str) -> str:
    """A folder that is writable or can be created."""
    place = Path(text).absolute()
    while not os.path.lexists(place):
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        problem = "not writable" if place.is_dir() else "not a folder"
        raise argparse.ArgumentTypeError(f"{text} cannot be written: {place} is {problem}")
    return text


def no_colon(parse: Callable[[str], str]) -> Callable[[str], str]:
    """A path without a colon, because fairseq splits paths at colons."""

    def parse_whole(text: str) -> str:
        if ":" in os.path.abspath(text):
            raise argparse.ArgumentTypeError(f"{text} contains ':', at which fairseq splits paths")
        return parse(text)

    return parse_whole


def output_file(*endings: str) -> Callable[[str], str]:
    """A file with one of these endings, in a folder that is writable or can be created."""

    def parse(text: str) -> str:
        if not text.lower().endswith(endings):
            raise argparse.ArgumentTypeError(f"{text} should end in {' or '.join(endings)}")
        if os.path.isdir(text):
            raise argparse.ArgumentTypeError(f"{text} is a folder")
        writable(os.path.dirname(text) or ".")
        return text

    return parse
