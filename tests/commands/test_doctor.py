"""The command tupe-doctor: lines, JSON, exit codes, and a Python without torch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.running import ENV, REPO, call_program
from tupe_fairseq.commands import doctor
from tupe_fairseq.doctor.doctor_report import exit_code
from tupe_fairseq.doctor.finding import OK, WARNING, Finding, run_checks

WRITTEN = Path(__file__).parents[1] / "compatibility" / "v0_1"


def test_lines_and_json_say_the_same(monkeypatch):
    # tests/doctor looks at the real one, which takes seconds
    first = [Finding("python", OK, "3.11"), Finding("torch", WARNING, "2.9", "old", "pip it")]
    monkeypatch.setattr(doctor, "check_environment", lambda scripts: iter(first))
    words = ["--checkpoint", WRITTEN / "official.pt", "--data", WRITTEN / "glue-bin" / "CoLA"]
    words += ["--sentencepiece-model", WRITTEN / "pieces.model"]
    code, text = call_program(doctor.main, [*words, "--json"])
    found = json.loads(text)
    assert (code, found["exit_code"], found["level"]) == (1, 1, WARNING)
    names = [one["name"] for one in found["checks"]]
    assert names[:3] == ["python", "torch", "checkpoint"] and names[-1] == "lengths"
    code, text = call_program(doctor.main, words)
    *lines, last = text.splitlines()
    assert code == 1 and len(lines) == len(names)
    for line, one in zip(lines, found["checks"]):
        assert line.startswith(f"{one['level']:<8} {one['name']}: ")
    assert lines[1] == "warning  torch: 2.9; old; to mend it: pip it"
    assert last == f"{len(names)} checks: {len(names) - 1} ok, 1 warning, 0 error"
    # what each flag changes
    assert flags_of(doctor.get_parser()) == {
        "--checkpoint", "--data", "--sentencepiece-model", "--json",
    }  # fmt: skip
    found = call_program(doctor.main, words[:2])[1], call_program(doctor.main, words[2:4])[1]
    assert "checkpoint: " in found[0] and "data: " not in found[0]
    assert "checkpoint: " not in found[1] and "data: " in found[1]
    assert "pieces.model" in text and "pieces.model" not in found[1]


def flags_of(parser):
    flags = {flag for action in parser._actions for flag in action.option_strings}
    return flags - {"-h", "--help"}


@pytest.mark.parametrize(
    "words, message",
    [
        (["--checkpoint", "{0}/none.pt"], "--checkpoint {0}/none.pt does not exist"),
        (["--checkpoint", "{0}"], "--checkpoint {0} is not a file"),
        (["--sentencepiece-model", "{0}/x"], "--sentencepiece-model {0}/x does not exist"),
        (["--data", "{0}/none"], "--data {0}/none is not a folder"),
    ],
)
def test_wrong_paths(words, message, tmp_path):
    code, text = call_program(doctor.main, [word.format(tmp_path) for word in words])
    assert (code, text) == (2, f"tupe-doctor: error: {message.format(tmp_path)}\n")


def test_the_worst_finding_gives_the_exit_code():
    def broken():
        raise RuntimeError("of\nits own")

    findings = list(run_checks({"a": lambda: Finding("a", "ok", "x")}))
    assert exit_code([]) == exit_code(findings) == 0
    findings.append(Finding("b", "warning", "x"))
    assert exit_code(findings) == 1
    findings += run_checks({"c": broken})
    assert exit_code(findings) == 2
    assert findings[-1].line == "error    c: the check itself failed; RuntimeError: of its own"


def run_without_site(folder, *words):
    """-S leaves out site-packages: there is only Python, this package, and what the folder has."""
    process = subprocess.run(
        [sys.executable, "-S", "-m", "tupe_fairseq.commands.doctor", *words], cwd=folder,
        env={**ENV, "PYTHONPATH": f"{folder}{os.pathsep}{REPO}"}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    *lines, last = process.stdout.splitlines()
    assert process.returncode == 2 and last.endswith("error"), process.stdout
    return {line.split(": ")[0].split(maxsplit=1)[1]: line for line in lines}


def test_a_python_with_nothing_installed(tmp_path):
    found = run_without_site(tmp_path, "--data", str(tmp_path))
    assert (
        "torch: not installed; nothing works without it; to mend it: pip install torch=="
        in (found["torch"])
    )
    assert found["numpy"].endswith("to mend it: pip install numpy")
    for name in ("fairseq", "omegaconf", "plugin", "devices"):
        assert found[name] == f"error    {name}: not checked; it needs torch; mend that first"
    assert "hf (no protobuf, safetensors" in found["extras"]
    assert found["files"].endswith("reading them needs numpy and torch; mend that first")


def test_a_torch_and_a_numpy_that_cannot_be_imported(tmp_path):
    for package in ("torch", "numpy"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise OSError('lib.so.9: not found')\n")
        info = tmp_path / f"{package}-2.12.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.12.0\n")
    found = run_without_site(tmp_path)
    for package in ("torch", "numpy"):
        assert f"import {package} fails: OSError: lib.so.9: not found; " in found[package]
        assert "to mend it: pip install --force-reinstall " + package in found[package]
