"""One hostile or broken input: where it goes, who reads it, and what would be right."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

# what a reader may make of an input
REFUSED = "refused"  # nothing else
SAME = "same"  # refuse it, or give what the sound input gives
VALUE = "value"  # as above, or take it for what it is: another input of the same kind

#: the folder, in the trial's, that hostile code makes; nothing else has this name
CANARY = "CODE-RAN"


class Case(NamedTuple):
    """An input.

    Args:
        kind (str): the kind of file.
        name (str): what was done to it.
        scene (str): the folder of sound files that it is put into (scenes.py).
        change (callable): makes the change in a copy of that folder.
        readers (tuple of str): who reads it (readers.py).
        right (str): REFUSED, SAME or VALUE.
    """

    kind: str
    name: str
    scene: str
    change: Callable[[Path], object]
    readers: tuple[str, ...]
    right: str


def replaced(place: str, content: bytes) -> Callable[[Path], object]:
    """A change: the file has this content."""
    return lambda folder: (folder / place).write_bytes(content)


def each_reader(cases: Sequence[Case]) -> Sequence[tuple[Case, str]]:
    """The trials: every case with every one of its readers."""
    return [(case, reader) for case in cases for reader in case.readers]
