"""--help and wrong flags need Python alone: what takes seconds is imported when there is work."""

import json
import re
import subprocess
import sys

import pytest

from helpers.running import ENV, REPO
from tupe_fairseq.commands.start import NEEDS

CALLS = """
import contextlib, io, json, sys
from tupe_fairseq.commands import start

said = {}
for name in start.NEEDS:
    for flag in ("--help", "--wrong-flag"):
        before, printed = set(sys.modules), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                getattr(start, name)([flag])
            except SystemExit as stop:
                code = stop.code
        files = [getattr(sys.modules[one], "__file__", None) for one in {*sys.modules} - before]
        said[f"{name} {flag}"] = code, printed.getvalue(), files
json.dump([said, sorted(sys.modules)], sys.stdout)
"""


@pytest.fixture(scope="module")
def called():
    """What each command said and imported; and all that was imported."""
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", CALLS], env={**ENV, "PYTHONPATH": str(REPO)},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(process.stdout)


def test_no_library_is_imported(called):
    said, loaded = called
    for call, (_, _, files) in said.items():
        assert not [file for file in files if "site-packages" in (file or "")], call
    # whatever their folder
    assert not {"torch", "numpy", "fairseq", "matplotlib", "transformers"} & set(loaded)


@pytest.mark.parametrize("command", NEEDS)
def test_what_is_said(command, called):
    program = f"tupe-{command.replace('_', '-')}"
    code, printed, _ = called[0][f"{command} --help"]
    assert code == 0 and printed.startswith(f"usage: {program} ")
    # lines are broken at hyphens, too
    assert re.search(f"examples?:{program}", "".join(printed.split()))
    code, printed, _ = called[0][f"{command} --wrong-flag"]
    *usage, last = printed.splitlines()
    assert code == 2 and last.startswith(f"{program}: error: there is no flag --wrong-flag")
    assert usage[0].startswith(f"usage: {program} ")
