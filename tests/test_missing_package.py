"""What is not installed is named with its extra, and what needs only torch works without it."""

import ast
import importlib.util
import json
import re

import pytest

from helpers.hidden import python_without
from helpers.running import REPO
from test_boundaries import files, imported, is_library, loaded_at_once
from tupe_fairseq.commands.start import NEEDS
from tupe_fairseq.missing_package import EXTRA_OF, FIRST_WITHOUT_FAIRSEQ, MissingPackage

#: what ``pip install`` calls it, where that is another name
DISTRIBUTION = {
    "fairseq_cli": "fairseq",
    "omegaconf": "fairseq",
    "yaml": "fairseq",
    "sentence_splitter": "sentence-splitter",
    "sklearn": "scikit-learn",
    "subword_nmt": "subword-nmt",
}
#: what comes with fairseq, of both lines
WITH_FAIRSEQ = {"fairseq_cli", "numpy", "omegaconf", "regex", "tqdm", "yaml"}


def extras():
    text = (REPO / "pyproject.toml").read_text(encoding="utf-8")
    section = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    lists = re.findall(r"^(\w+) = (\[.*?\])$", section, re.MULTILINE | re.DOTALL)
    return {
        name: {re.match(r"[\w-]+", requirement).group() for requirement in ast.literal_eval(given)}
        for name, given in lists
    }


@pytest.mark.parametrize("package", EXTRA_OF)
def test_the_extra_brings_the_package(package):
    assert DISTRIBUTION.get(package, package) in extras()[EXTRA_OF[package]]


def test_every_import_has_an_extra():
    tops = {name.split(".")[0] for path in files() for name in imported(path)} - {"tupe_fairseq"}
    # triton comes with torch, or is done without
    assert set(filter(is_library, tops)) - {"torch", "triton"} <= set(EXTRA_OF)


@pytest.mark.parametrize("command", NEEDS)
def test_all_that_a_command_imports_is_checked_first(command):
    seen = set()
    loaded_at_once(REPO / "tupe_fairseq" / "commands" / f"{command}.py", seen)
    # numpy comes with the package itself
    needed = {name for name in seen if name in EXTRA_OF} - {"numpy"}
    if "fairseq" in NEEDS[command]:
        needed -= WITH_FAIRSEQ
    assert needed <= set(NEEDS[command])


def test_every_console_script_starts_there():
    text = (REPO / "pyproject.toml").read_text(encoding="utf-8")
    scripts = re.findall(r'^(tupe-[\w-]+) = "tupe_fairseq\.commands\.start:(\w+)"', text, re.M)
    assert dict(scripts) == {f"tupe-{name.replace('_', '-')}": name for name in NEEDS}


CALLS = """
import contextlib, importlib, io, json
from tupe_fairseq.commands import start

def call(name, *words):
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
        try:
            getattr(start, name)(list(words))
            code = 0
        except SystemExit as stop:
            code = stop.code
    return code, printed.getvalue()

def required(name):
    # what a command cannot do without, well formed
    flags = importlib.import_module(f"tupe_fairseq.command_flags.{name}")
    for action in flags.get_parser()._actions:
        if action.required:
            yield from action.option_strings
            yield action.choices[0] if action.choices else "1"

said = {}
needing = {name: packages for name, packages in start.NEEDS.items() if packages}
for name, packages in needing.items():
    for package in packages:  # one at a time, before anything is imported
        hidden = {package}
        said[f"{name} without {package}"] = call(name, *required(name))
    hidden = set(packages)
    said[f"{name} without any"] = call(name, *required(name))
    said[f"{name} --help"] = call(name, "--help")
print(json.dumps(said))
"""


needs_all = pytest.mark.skipif(
    any(importlib.util.find_spec(package) is None for package in sum(NEEDS.values(), ())),
    reason="it hides what is installed, and not all that a command needs is",
)


@needs_all
def test_a_command_says_in_one_line_what_it_misses():
    process = python_without([], CALLS)
    assert process.returncode == 0, process.stdout
    said = json.loads(process.stdout)
    for name, packages in NEEDS.items():
        if not packages:  # tupe-doctor, which looks for what is missing
            continue
        program = f"tupe-{name.replace('_', '-')}"
        for absent in [*([package] for package in packages), packages]:
            which = "any" if absent is packages else absent[0]
            line = f"{program}: error: {MissingPackage(*absent)}\n"
            assert said[f"{name} without {which}"] == [2, line]
        code, printed = said[f"{name} --help"]
        assert (code, printed.split()[:2]) == (0, ["usage:", program])
    assert said["compare without any"][1].startswith(
        "tupe-compare: error: fairseq, matplotlib are not installed; pip install "
        "'tupe_fairseq[fairseq,plot]' (in a clone: pip install '.[fairseq,plot]')"
    )


def test_on_a_python_without_fairseq_it_says_so(monkeypatch):
    assert str(MissingPackage("numpy")).endswith("(in a clone: pip install '.[data]')")
    monkeypatch.setattr("sys.version_info", FIRST_WITHOUT_FAIRSEQ)
    assert str(MissingPackage("fairseq")).endswith("; fairseq runs on Python 3.10 to 3.12 only")
    assert str(MissingPackage("numpy")).endswith("(in a clone: pip install '.[data]')")


TORCH_ONLY = """
import importlib, pathlib, pkgutil

import torch
import tupe_fairseq
from tupe_fairseq import *

# large enough for the dropout and the attention that numpy draws for
encoder = TupeEncoder(TupeConfig(dropout=0.5, attention_dropout=0.5)).train()
embeddings = torch.randn(4, 160, 128, requires_grad=True)
encoder(embeddings).sum().backward()
assert embeddings.grad.isfinite().all()
assert TupePositionBias(8, 2, 5)(5).shape == (2, 5, 5)

alone = "position attention modules files checkpoint".split()
for part in alone:
    package = importlib.import_module(f"tupe_fairseq.{part}")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith(("triton_kernels", "triton_bias")):
            importlib.import_module(module.name)
import tupe_fairseq.inference.plot_subjects, tupe_fairseq.plots.figures.variance
import tupe_fairseq.position_terms, tupe_fairseq.text.foreign_vocabulary
from tupe_fairseq.export.folder_files import code_files
assert "class TupeModel" in code_files()["modeling_tupe.py"]

def message(module):
    try:
        importlib.import_module(module)
    except ImportError as error:
        return str(error)

assert not hidden & set(sys.modules), hidden & set(sys.modules)
assert "pip install 'tupe_fairseq[plot]'" in message("tupe_fairseq.plots.canvas")
assert "pip install 'tupe_fairseq[data]'" in message("tupe_fairseq.text.vocabulary")
assert "pip install 'tupe_fairseq[fairseq]'" in message("tupe_fairseq.programs.train")
assert message("matplotlib") == "No module named 'matplotlib'"  # not asked for by the package
print("all of it")
tupe_fairseq.TupeRobertaModel
"""


def test_with_torch_alone_the_core_works_and_the_rest_says_what_to_install(tmp_path):
    process = python_without(EXTRA_OF, TORCH_ONLY, cwd=tmp_path)
    lines = process.stdout.splitlines()
    assert process.returncode and "all of it" in lines, process.stdout
    assert lines[-1].endswith(str(MissingPackage("fairseq")))


ONLY_FAIRSEQ = """
import tupe_fairseq
import fairseq
from fairseq.models import ARCH_MODEL_REGISTRY
assert "tupe_roberta" in ARCH_MODEL_REGISTRY
print(len(hidden & set(sys.modules)))
"""


@needs_all
def test_for_training_the_extra_of_fairseq_is_enough(tmp_path):
    # the main branch imports scikit-learn itself
    present = {"fairseq", "scipy", "sklearn", *WITH_FAIRSEQ}
    process = python_without(set(EXTRA_OF) - present, ONLY_FAIRSEQ, cwd=tmp_path)
    assert process.stdout.splitlines()[-1] == "0", process.stdout
