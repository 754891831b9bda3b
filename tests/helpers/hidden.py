"""Python without some packages that are installed."""

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
