"""How commands start: --help imports no library, its example is right, extras are named."""

import ast
import importlib
import re
import shlex
import subprocess
import sys

import pytest

from helpers.called_bare import called_bare
from helpers.exporting import write_model, write_vocabulary
from helpers.running import BIN, ENV, REPO
from tupe_fairseq.cli.extras import EXTRA_OF
from tupe_fairseq.cli.main import COMMANDS

# what pip calls it, where that is another name
DISTRIBUTIONS = {
    "fairseq_cli": "fairseq", "omegaconf": "fairseq",
    "sentence_splitter": "sentence-splitter", "sklearn": "scikit-learn",
    "subword_nmt": "subword-nmt",
}  # fmt: skip


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    """Exit code, output and imported libraries of each command with --help and a wrong flag."""
    calls = [(name, [flag]) for name in COMMANDS for flag in ("--help", "--wrong-flag")]
    said = called_bare(calls, tmp_path_factory.mktemp("empty"))
    return {(name, flag): one for (name, (flag,)), one in zip(calls, said)}


def get_parser(command):
    return importlib.import_module(f"tupe_fairseq.cli.{command.replace('-', '_')}").get_parser()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_wrong_flags_import_no_library(command, called):
    program = f"tupe-{command}"
    code, text, libraries = called[command, "--help"]
    assert code == 0 and text.startswith(f"usage: {program} ") and libraries == []
    code, text, libraries = called[command, "--wrong-flag"]
    assert code == 2 and libraries == []
    assert text.splitlines()[-1].startswith(f"{program}: error: ")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_the_help_can_be_pasted(command):
    parser = get_parser(command)
    example = re.sub(r"\\\n", " ", re.split(r"examples?:", parser.epilog)[1])
    program, *words = shlex.split(example.strip().splitlines()[0])
    assert program == f"tupe-{command}"
    flags = {flag for action in parser._actions for flag in action.option_strings}
    assert {word.split("=")[0] for word in words if word.startswith("--")} <= flags
    required = [action for action in parser._actions if action.required and action.option_strings]
    assert all(set(action.option_strings) & set(words) for action in required)


def test_three_ways_to_start():
    """tupe-options, tupe options and python -m tupe_fairseq options are the same."""
    ways = [[BIN / "tupe-options"], [BIN / "tupe", "options"]]
    ways.append([sys.executable, "-m", "tupe_fairseq", "options"])
    said = [
        subprocess.run([*way, "--help"], capture_output=True, text=True, env=ENV) for way in ways
    ]
    assert {one.returncode for one in said} == {0} and len({one.stdout for one in said}) == 1
    listed = subprocess.run([BIN / "tupe"], capture_output=True, text=True, env=ENV)
    assert listed.returncode == 0 and all(f"  {name} " in listed.stdout for name in COMMANDS)
    unknown = subprocess.run([BIN / "tupe", "nope"], capture_output=True, text=True, env=ENV)
    assert unknown.returncode == 2


def test_extras_and_commands_are_those_of_pyproject():
    text = (REPO / "pyproject.toml").read_text()
    section = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    extras = dict(re.findall(r"^(\w+) = (\[.*?\])$", section, re.M | re.S))
    for package, extra in EXTRA_OF.items():
        names = {re.match(r"[\w-]+", line).group() for line in ast.literal_eval(extras[extra])}
        assert DISTRIBUTIONS.get(package, package) in names
    scripts = re.findall(r'^tupe-([\w-]+) = "tupe_fairseq\.cli\.main:main"', text, re.M)
    assert sorted(scripts) == sorted(COMMANDS)


def test_a_missing_package_is_named_with_its_extra(tmp_path):
    for name in ("dict.txt", "train.bin", "train.idx", "valid.bin", "valid.idx"):
        (tmp_path / name).touch()
    words = [".", "--output-dir", "out", "--schemes", "tupe", "--updates", "1", "--cpu"]
    code = "import importlib.util, sys; find = importlib.util.find_spec\n"
    code += "importlib.util.find_spec = lambda name: None if name == 'scipy' else find(name)\n"
    code += f"from tupe_fairseq.cli.main import run; sys.exit(run('compare', {words!r}))"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=ENV
    )
    expected = "tupe-compare: error: scipy is not installed; pip install 'tupe_fairseq[data]'"
    assert process.returncode == 2 and process.stderr.startswith(expected)


LOADING = """
import sys
from tupe_fairseq import TupeRobertaModel
TupeRobertaModel.from_pretrained(*sys.argv[1:])
from tupe_fairseq.cli.main import log_to_stderr
log_to_stderr("tupe-x")
import tupe_fairseq.compare.figures
"""


def test_imports_and_loading_print_nothing(tmp_path):
    write_vocabulary(tmp_path / "data")
    checkpoint = write_model(tmp_path / "model", tmp_path / "data", tokens_per_sample=24)
    process = subprocess.run(
        [sys.executable, "-c", LOADING, checkpoint.parent, checkpoint.name, tmp_path / "data"],
        env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    # fairseq itself, on every import
    lines = [line for line in process.stdout.splitlines() if "tensorboardX" not in line]
    assert lines == [] and process.returncode == 0
