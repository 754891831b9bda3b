"""Which rooms of the package import which: a room imports what is below it."""

import ast
import sys
from pathlib import Path

import pytest

import tupe_fairseq

PACKAGE = Path(tupe_fairseq.__file__).parent
#: each room, the rooms that it imports, and the libraries of those that need torch alone
ROOMS = {
    "options": ("", ""),
    "position": ("options", "torch"),
    "attention": ("position", "torch"),
    "modules": ("attention position", "torch fairseq"),  # fairseq in heads.py alone
    "encoder": ("attention modules options position", "torch"),
    "files": ("", ""),
    "data": ("files",),
    "scoring": ("data files",),
    "checkpoint": ("data encoder files modules options position",),
    "fairseq_runs": ("checkpoint",),
    "optim": ("fairseq_runs",),
    "tasks": ("checkpoint data files optim",),
    "criterions": ("data tasks",),
    "inference": (
        "checkpoint data encoder files models modules options position fairseq_runs tasks",
    ),
    "models": ("attention checkpoint encoder inference modules options position",),
}


def imported(path):
    """The rooms and the libraries that a file imports, anywhere in it."""
    rooms, libraries = set(), set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "tupe_fairseq":
            names = [f"tupe_fairseq.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        for name in names:
            top, _, rest = name.partition(".")
            if top == "tupe_fairseq":
                rooms.add(rest.partition(".")[0])
            elif top not in sys.stdlib_module_names:
                libraries.add(top)
    return rooms, libraries


def files(room):
    return sorted((PACKAGE / room).rglob("*.py")) or [PACKAGE / f"{room}.py"]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_what_is_below_it(room):
    allowed, *libraries = (set(words.split()) for words in ROOMS[room])
    for path in files(room):
        rooms, found = imported(path)
        assert rooms - {room} - {""} <= allowed, path
        if libraries:
            assert found - {""} <= libraries[0], path
            assert "fairseq" not in found or path.name == "heads.py", path
