"""Python without some packages that are installed."""

import importlib.machinery
import subprocess
import sys

from helpers.running import ENV, REPO

# As if they were not installed: nothing finds them.  torch does without numpy.
_HIDE = """
import importlib.machinery, sys
hidden = set(sys.argv.pop(1).split())
find_spec = importlib.machinery.PathFinder.find_spec
importlib.machinery.PathFinder.find_spec = (
    lambda name, *rest: None if name.split(".")[0] in hidden else find_spec(name, *rest)
)
"""


def hide(monkeypatch, package):
    """As if a package were not installed, in this process: no longer loaded, and not found."""
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    find_spec = importlib.machinery.PathFinder.find_spec
    monkeypatch.setattr(
        importlib.machinery.PathFinder, "find_spec",
        lambda name, *rest: None if name.split(".")[0] == package else find_spec(name, *rest),
    )  # fmt: skip


def python_without(packages, program, *words, cwd=None):
    """Run a program in which some packages, ``hidden``, are absent; the finished process.

    Args:
        packages (iterable of str): names as they are imported.
        program (str): its source.
        words (str): its arguments.
    """
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _HIDE + program, " ".join(packages), *words],
        cwd=cwd, env={**ENV, "PYTHONPATH": str(REPO)}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
