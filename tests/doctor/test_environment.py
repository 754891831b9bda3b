"""What tupe-doctor finds in installations: this one, and ones with something absent or too much."""

import re
import sys

import pytest

from helpers.hidden import hide
from helpers.running import REPO
from tupe_fairseq.doctor.environment import check_environment
from tupe_fairseq.doctor.fairseq_installation import check_fairseq, check_omegaconf
from tupe_fairseq.doctor.finding import ERROR, OK, WARNING
from tupe_fairseq.doctor.plugin_registration import check_registration
from tupe_fairseq.doctor.python_and_torch import (
    TESTED_TORCH,
    check_numpy,
    check_python,
    check_torch,
)


def write_distribution(folder, name, version, package):
    """What pip leaves of a distribution beside its files."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "top_level.txt").write_text(f"{package}\n")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Adds distributions to those of this Python, before them."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda *words: write_distribution(tmp_path, *words)


def test_here_all_is_well_but_for_what_the_line_needs():
    findings = {one.name: one for one in check_environment([])}
    assert {"python", "torch", "numpy", "fairseq", "omegaconf", "plugin"} <= set(findings)
    # a clone need not be installed
    allowed = {"plugin": (OK, WARNING), "gpu": (OK, WARNING)}
    for name, finding in findings.items():
        assert finding.level in allowed.get(name, (OK,)), finding.line
    assert "architectures known to fairseq" in findings["plugin"].found
    cpu = findings["attention on cpu"].found
    assert cpu == "cpu, float32: a step of training works"


def test_tested_torch_is_that_of_the_constraints():
    text = (REPO / "scripts" / "constraints.txt").read_text()
    assert re.findall(r"^torch==([\d.]+);", text, re.M) == list(TESTED_TORCH)


@pytest.mark.parametrize(
    "version, level, words",
    [
        ((3, 9, 18), ERROR, "needs Python 3.10"),
        ((3, 10, 0), OK, ""),
        ((3, 12, 1), OK, ""),
        ((3, 13, 0), WARNING, "fairseq runs on Python 3.10 to 3.12 only"),
    ],
)
def test_pythons(version, level, words):
    finding = check_python(version)
    assert finding.level == level and words in finding.wrong


def test_a_torch_that_is_too_old_is_not_imported(installed, monkeypatch):
    installed("torch", "2.9.1", "torch")
    monkeypatch.setitem(sys.modules, "torch", None)  # an import would fail
    finding = check_torch((3, 10))
    assert (finding.level, finding.found) == (ERROR, "2.9.1")
    assert finding.command == "pip install torch==2.10.0"


def test_the_numpy_of_the_official_fairseq(installed):
    installed("numpy", "1.24.0", "numpy")
    finding = check_numpy("0.12.2")
    assert (finding.level, finding.command) == (ERROR, "pip install 'numpy<1.24'")
    assert check_numpy("0.13.0").level == check_numpy().level == OK


def test_two_fairseqs(installed):
    installed("another_build", "0.12.3", "fairseq")
    installed("an-own_build", "9", "fairseq")
    installed("fairseq_tools", "1", "tools")
    finding = check_fairseq((3, 11, 0))
    assert finding.level == ERROR and finding.wrong.startswith("3 distributions")
    assert "an-own_build 9, " in finding.found and "fairseq_tools" not in finding.found
    removed, _, mended = finding.command.partition(" && ")
    assert removed.startswith("pip uninstall -y an-own_build ") and " another_build" in removed
    assert mended == "pip install ve-fairseq==0.12.3"
    assert check_fairseq((3, 10, 0)).command.endswith("pip install fairseq==0.12.2")


def test_no_fairseq(tmp_path, monkeypatch):
    hide(monkeypatch, "fairseq")
    # neither its files nor its record
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "site-packages" not in path])
    finding = check_fairseq((3, 11, 0))
    assert (finding.level, finding.found) == (WARNING, "not installed")
    assert finding.command == "pip install 'tupe_fairseq[fairseq]'"
    assert check_fairseq((3, 13, 0)).command.startswith("python3.12 -m venv .venv && ")
    assert check_omegaconf().level == OK
    assert "architectures" not in check_registration([]).found
    write_distribution(tmp_path, "ve-fairseq", "0.12.3", "fairseq")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    finding = check_fairseq((3, 11, 0))
    assert (finding.level, finding.wrong) == (ERROR, "its files are gone")


def test_a_fairseq_that_cannot_be_imported(tmp_path, monkeypatch):
    (tmp_path / "fairseq").mkdir()
    (tmp_path / "fairseq" / "__init__.py").write_text("raise OSError('lib.so.9: not found')\n")
    without = [path for path in sys.path if "site-packages" not in path]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *without])
    for name in [name for name in sys.modules if name.split(".")[0] == "fairseq"]:
        monkeypatch.delitem(sys.modules, name)
    finding = check_fairseq((3, 10, 0))
    assert finding.level == ERROR and finding.found.startswith("of no distribution, in ")
    assert finding.wrong == "import fairseq fails: OSError: lib.so.9: not found"
    assert finding.command == "pip install fairseq==0.12.2"
    write_distribution(tmp_path, "fairseq", "0.12.2", "fairseq")
    finding = check_fairseq((3, 11, 4))
    assert finding.level == ERROR and "cannot be imported on Python 3.11" in finding.wrong
    assert finding.command == "pip uninstall -y fairseq && pip install ve-fairseq==0.12.3"


def test_a_plugin_that_pip_has_in_another_version_or_without_new_commands(installed, tmp_path):
    installed("tupe_fairseq", "0.0.1", "tupe_fairseq")
    finding = check_registration([])
    assert finding.level == WARNING and "pip has tupe_fairseq 0.0.1" in finding.wrong
    (info,) = tmp_path.iterdir()
    metadata = info / "METADATA"
    from tupe_fairseq import __version__

    metadata.write_text(metadata.read_text().replace("0.0.1", __version__))
    (info / "entry_points.txt").write_text("[console_scripts]\ntupe-a = a:a\n")
    assert check_registration(["tupe-a"]).level == OK
    finding = check_registration(["tupe-a", "tupe-b"])
    assert finding.level == WARNING and finding.wrong.endswith("before it had tupe-b")


def test_a_plugin_of_two_distributions(installed):
    installed("tupe_fairseq", "0.0.1", "tupe_fairseq")
    installed("a-fork", "2", "tupe_fairseq")
    finding = check_registration([])
    assert finding.level == WARNING
    assert finding.wrong == "2 distributions bring it: a-fork 2, tupe_fairseq 0.0.1"
    assert finding.command.startswith("pip uninstall -y a-fork tupe_fairseq && pip install -e .")
