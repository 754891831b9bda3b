"""--help and wrong flags need Python alone: what takes seconds is imported when there is work."""

import re

import pytest

from helpers.called_bare import called_bare
from tupe_fairseq.cli.main import COMMANDS

FLAGS = ("--help", "--wrong-flag")


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    """What each command said and imported."""
    calls = [(name, [flag]) for name in COMMANDS for flag in FLAGS]
    said = called_bare(calls, tmp_path_factory.mktemp("empty"))
    return {(name, flag): one for (name, (flag,)), one in zip(calls, said)}


def test_no_library_is_imported(called):
    assert [call for call, (_, _, libraries) in called.items() if libraries] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_said(command, called):
    program = f"tupe-{command}"
    code, printed, _ = called[command, "--help"]
    assert code == 0 and printed.startswith(f"usage: {program} ")
    # lines are broken at hyphens, too
    assert re.search(f"examples?:{program}", "".join(printed.split()))
    code, printed, _ = called[command, "--wrong-flag"]
    *usage, last = printed.splitlines()
    assert code == 2 and last.startswith(f"{program}: error: ")
    assert usage[0].startswith(f"usage: {program} ")
