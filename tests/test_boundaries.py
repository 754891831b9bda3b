"""Which part may import which, read from the source."""

import ast
from pathlib import Path

import pytest

import tupe_fairseq

PACKAGE = Path(tupe_fairseq.__file__).parent
STDLIB_USED = {
    "argparse", "collections", "contextlib", "dataclasses", "functools", "json", "logging", "math",
    "os", "typing",
}  # fmt: skip
ALLOWED = {
    "position": {"torch", "tupe_fairseq.position"},
    "attention": {"torch", "numpy", "triton", "tupe_fairseq.attention"},
    "modules": {"torch", "tupe_fairseq.attention", "tupe_fairseq.modules"},
    "config.py": set(),
    "encoder.py": {
        "torch", "tupe_fairseq.attention", "tupe_fairseq.config", "tupe_fairseq.modules",
        "tupe_fairseq.position",
    },
}  # fmt: skip


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module


@pytest.mark.parametrize("part", ALLOWED)
def test_imports(part):
    root = PACKAGE / part
    files = sorted(root.glob("*.py")) if root.is_dir() else [root]
    assert files
    for path in files:
        for name in imports(path):
            allowed = any(name == a or name.startswith(a + ".") for a in ALLOWED[part])
            assert allowed or name in STDLIB_USED, f"{path.name} imports {name}"


def test_fairseq_is_only_known_to_the_plugin():
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] not in ("plugin", "models"):
            assert not any(name.split(".")[0] == "fairseq" for name in imports(path)), path
