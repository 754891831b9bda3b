"""Calls commands in a fresh process, to see what they have imported when they end."""

import json
import subprocess
import sys

from helpers.running import ENV, REPO

CALLS = """
import contextlib, io, json, sys
from tupe_fairseq.cli import main as cli

said = []
for name, words in json.load(sys.stdin):
    before, printed = set(sys.modules), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = cli.run(name.replace("_", "-"), words)
    # some are no libraries by their folder
    slow = {"torch", "numpy", "fairseq", "matplotlib", "transformers"}
    libraries = [
        one for one in {*sys.modules} - before
        if one in slow or "site-packages" in (getattr(sys.modules[one], "__file__", None) or "")
    ]
    said.append([code, printed.getvalue(), libraries])
json.dump(said, sys.stdout)
"""


def called_bare(calls, cwd):
    """Call commands one after the other in one process; any warning is an error there.

    Args:
        calls (list): the name of each command, and its words.
        cwd (path): the working directory.
    Returns:
        list: exit code, what was printed, and the modules of libraries that were first imported
        by this call; in the order of the calls.
    """
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", CALLS], env={**ENV, "PYTHONPATH": str(REPO)},
        input=json.dumps(calls), stdout=subprocess.PIPE, text=True, check=True, cwd=cwd,
    )  # fmt: skip
    return json.loads(process.stdout)
