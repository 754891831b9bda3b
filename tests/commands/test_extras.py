"""A command that lacks a package says which extra brings it."""

import ast
import re
import sys

import pytest

from helpers import cli
from tupe_fairseq.cli.extras import EXTRA_OF
from tupe_fairseq.cli.main import COMMANDS

# what pip calls it, where that is another name
DISTRIBUTIONS = {
    "fairseq_cli": "fairseq", "omegaconf": "fairseq", "yaml": "fairseq",
    "sentence_splitter": "sentence-splitter", "sklearn": "scikit-learn",
    "subword_nmt": "subword-nmt",
}  # fmt: skip


def test_extras_and_commands_are_those_of_pyproject():
    text = (cli.REPO / "pyproject.toml").read_text()
    section = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    extras = dict(re.findall(r"^(\w+) = (\[.*?\])$", section, re.M | re.S))
    for package, extra in EXTRA_OF.items():
        names = {re.match(r"[\w-]+", line).group() for line in ast.literal_eval(extras[extra])}
        assert DISTRIBUTIONS.get(package, package) in names
    scripts = re.findall(r'^tupe-([\w-]+) = "tupe_fairseq\.cli\.main:main"', text, re.M)
    assert sorted(scripts) == sorted(COMMANDS)


@pytest.mark.parametrize("package, words", [
    ("tqdm", ["score", "model.pt", "--input", "a.txt"]),
    ("yaml", ["compare", "--config", "settings.yaml"]),
])  # fmt: skip
def test_the_extra_is_named(package, words, tmp_path):
    (tmp_path / "settings.yaml").write_text("updates: 1\n")
    blocked = f"import sys\nsys.modules[{package!r}] = None\n"
    for name in ("model.pt", "a.txt"):
        (tmp_path / name).touch()
    code = f"from tupe_fairseq.cli.main import run\nsys.exit(run({words[0]!r}, {words[1:]!r}))"
    process = cli.run(sys.executable, "-c", blocked + code, cwd=tmp_path, check=False)
    expected = f"{package} is not installed; pip install 'tupe_fairseq[{EXTRA_OF[package]}]'"
    assert process.returncode == 2 and expected in process.stdout.splitlines()[-1]
