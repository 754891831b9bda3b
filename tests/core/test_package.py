"""The package: what its parts import, and that files appear only when they are complete."""

import ast
import os
import re
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tupe_fairseq
from faults import FAULTS
from tupe_fairseq.files import atomic_write, read_json, write_json

PACKAGE = Path(tupe_fairseq.__file__).parent
#: the parts that each part imports, and the libraries of those that need only torch; cli is on top
IMPORTS = {
    "options": ("", ""),
    "recipe": ("", ""),
    "initialization": ("", "torch"),
    "matrices": ("", "torch"),
    "position": ("initialization options", "torch"),
    "attention": ("position", "torch triton"),
    "modules": ("attention initialization options position", "torch"),
    "encoder": ("attention modules options position", "torch"),
    "files": ("", ""),
    "provenance": ("version",),
    "flags": ("data options",),
    "data": ("files provenance",),
    "kinds": ("data options",),
    "labelled": ("data files kinds provenance",),
    "prepare": ("data files flags kinds labelled options",),
    "checkpoint": ("data encoder files flags kinds labelled modules options position",),
    "runs": ("files flags provenance",),
    "optim": ("matrices options",),
    "tasks": ("checkpoint data files kinds labelled options",),
    "criterions": ("data kinds labelled options",),
    "models": ("attention checkpoint data encoder inference matrices modules options position",),
    "inference": ("checkpoint data encoder files kinds labelled modules options position",),
    "scoring": ("checkpoint data files flags inference labelled provenance results",),
    "export": (
        "attention checkpoint data files flags kinds labelled modules options position version",
    ),
    "figures": ("checkpoint data encoder files inference position",),
    "results": ("data figures files kinds labelled",),
    "finetune": (
        "checkpoint data figures files flags inference kinds labelled options recipe results runs",
    ),
    "compare": ("checkpoint data encoder figures files flags modules options recipe results runs",),
}


def imported(path):
    """The parts and the libraries that a file imports, anywhere in it."""
    parts, libraries = set(), set()
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
                parts.add(rest.partition(".")[0])
            elif top not in sys.stdlib_module_names:
                libraries.add(top)
    return parts, libraries


def files(part):
    return sorted((PACKAGE / part).rglob("*.py")) or [PACKAGE / f"{part}.py"]


def test_every_part_is_listed():
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert parts - {"cli", "version", "__init__", "__main__", "__pycache__"} == {*IMPORTS}


@pytest.mark.parametrize("part", IMPORTS)
def test_a_part_imports_what_is_listed(part):
    allowed, *libraries = (set(words.split()) for words in IMPORTS[part])
    parts, found = map(set.union, *map(imported, files(part)))
    assert parts - {part, ""} == allowed
    if libraries:
        assert found - {""} <= libraries[0]


def test_no_parts_import_each_other():
    order = TopologicalSorter({part: words[0].split() for part, words in IMPORTS.items()})
    assert {*order.static_order()} == {*IMPORTS, "version"}  # raises CycleError


def test_the_version_is_the_same_everywhere():
    repo = Path(__file__).parents[2]
    changes = re.search(r"^## (\S+)", (repo / "CHANGELOG.md").read_text(), re.M)[1]
    cited = re.search(r"^version: (\S+)", (repo / "CITATION.cff").read_text(), re.M)[1]
    assert changes == cited == tupe_fairseq.__version__


def test_every_fault_can_still_be_made():
    for file, _, old, _ in FAULTS:
        count = (PACKAGE / file).read_text("utf-8").count(old)
        assert count == 1, f"update tests/faults.py: {old!r} is {count} times in {file}"


# ---- Files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode, content", [("w", "n\u00e9w\n"), ("wb", b"new\x00")])
def test_the_old_content_stays_until_the_new_is_whole(mode, content, tmp_path):
    path = tmp_path / "folder" / "file"
    for old in (None, b"old"):
        if old is not None:
            path.write_bytes(old)
        with atomic_write(str(path), mode) as file:
            file.write(content)
            file.flush()
            assert (path.read_bytes() if path.exists() else None) == old
        assert path.read_bytes() == (content if mode == "wb" else content.encode())
    assert os.listdir(path.parent) == ["file"]
    (tmp_path / "link").symlink_to(path)  # such as to a checkpoint on another disk
    with atomic_write(str(tmp_path / "link"), mode) as file:
        file.write(content * 2)
    assert (tmp_path / "link").is_symlink()
    assert path.read_bytes() == (tmp_path / "link").read_bytes() != content


def test_a_failure_leaves_the_old_content_and_nothing_else(tmp_path):
    path = tmp_path / "file.json"
    write_json(str(path), {"a": 1})
    with pytest.raises(TypeError):  # after the first lines have been written
        write_json(str(path), {"a": 2, "b": object()})
    with pytest.raises(OSError) as stop, atomic_write(str(path)):
        raise OSError(28, "No space left on device")
    assert stop.value.filename == str(path)
    assert read_json(str(path)) == {"a": 1} and os.listdir(tmp_path) == ["file.json"]
