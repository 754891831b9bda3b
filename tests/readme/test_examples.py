"""The scripts of the pages run, and their models learn what the pages say."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.running import BIN, REPO, USER_DIR, run_process
from tupe_fairseq.data.tokenizer import Tokenizer


def test_pytorch_only(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(REPO / "examples" / "pytorch_only.py"))
    output = capsys.readouterr().out
    assert "step 100: loss 0.01" in output and "100% right" in output
    assert (tmp_path / "bias.png").stat().st_size > 10_000


def test_search_takes_the_lines_that_tupe_encode_takes(tmp_path, capsys):
    """Neither a form feed nor Unicode's line separator ends a line."""
    search = runpy.run_path(str(REPO / "examples" / "tasks" / "search.py"))["main"]
    files = [str(tmp_path / name) for name in ("texts", "texts.npy", "queries", "queries.npy")]
    for path, lines in zip(files[::2], ("one\ftext\nan\u2028other\n", "query\n")):
        Path(path).write_text(lines, encoding="utf-8")
    for path, vectors in zip(files[1::2], ([[1.0, 0.0], [0.0, 1.0]], [[0.0, 3.0]])):
        np.save(path, np.array(vectors, dtype="f4"))
    search(*files, "1")
    assert capsys.readouterr().out == "query\n  0.832  an\u2028other\n"


def test_what_the_scripts_import_is_there():
    """Also in the Python code of shell scripts that would take hours."""
    scripts = [
        path for room in ("examples", "scripts") for path in (REPO / room).rglob("*.[ps][yh]")
    ]
    imports = r"^ *(from tupe_fairseq[\w.]* import [\w, ]+)$"
    lines = {line for path in scripts for line in re.findall(imports, path.read_text(), re.M)}
    assert len(lines) > 9
    for line in lines:
        exec(line, {})


@pytest.mark.parametrize(
    "parts, lines", [("ops,steps", 9), pytest.param("compile", 2, marks=pytest.mark.slow)]
)
def test_benchmark_of_a_gpu(parts, lines, tmp_path):
    """On the CPU with tiny sizes, so that mistakes are found before a GPU is used."""
    words = ["--smoke", "--parts", parts, "--only", "sdpa"]
    script = REPO / "scripts" / "benchmarks" / "gpu.py"
    output = run_process(sys.executable, script, *words, env={"OUT": str(tmp_path)}).stdout
    assert "FAILED" not in output
    assert len((tmp_path / "gpu.jsonl").read_text().splitlines()) == lines


def quickstart(folder, **options):
    """Run the quickstart in this environment, with few updates by QUICKSTART_SMOKE."""
    env = {"QUICKSTART_SMOKE": "1", "QUICKSTART_DIR": str(folder), "VENV": sys.prefix}
    scripts = REPO / "scripts"
    if Path(USER_DIR).parent != REPO:  # an installed package needs no clone
        scripts = shutil.copytree(scripts, folder.parent / "scripts", dirs_exist_ok=True)
        env["PYTHONPATH"] = ""
    return run_process(scripts / "quickstart.sh", cwd=folder.parent, env=env, **options).stdout


def test_quickstart_and_a_second_run_that_skips_what_is_finished(tmp_path):
    folder = tmp_path / "run"
    first = quickstart(folder)
    for word in ("$ tupe-prepare-pretrain --input", "$ fairseq-validate", "this model", "<mask>"):
        assert word in first
    assert first.count("--user-dir tupe_fairseq --arch") == 1  # one training is shown
    assert f"source {sys.prefix}/bin/activate" in first
    checkpoint = folder / "checkpoints" / "checkpoint_last.pt"
    # the data folder is a complete one, with which GLUE can be prepared
    assert Tokenizer.load(str(folder / "data-bin")).max_positions == 64
    trained = checkpoint.stat().st_mtime_ns
    second = quickstart(folder)
    assert "is already finished" in second and checkpoint.stat().st_mtime_ns == trained
    assert "$ fairseq-" not in second and "$ python scripts/build" not in second


@pytest.mark.parametrize("name", ["a:b", "full"])
def test_a_folder_that_quickstart_cannot_use(name, tmp_path):
    folder = tmp_path / name
    if name == "full":
        folder.mkdir()
        (folder / "mine.txt").write_text("not to be lost")
    assert f"quickstart.sh: QUICKSTART_DIR is {folder}" in quickstart(folder, check=False)


def test_a_folder_that_is_no_environment_stays(tmp_path):
    (tmp_path / "thesis.txt").write_text("not to be lost")
    script = REPO / "scripts" / "setup_venv.sh"
    refused = subprocess.run([script, sys.executable, tmp_path], capture_output=True, text=True)
    assert refused.returncode == 2 and f"{tmp_path} is not an environment of" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


STUB = """#!/bin/sh
code=$2; shift 2
exec {python} -c "import sys, sysconfig; sys.version_info, sys.executable = ({version}, 0), '$0'
sysconfig.get_path = lambda name: '{folder}'
$code" "$@"
"""


@pytest.mark.parametrize(
    "pythons, has_compiler, expected",
    [
        ({"python3": "3.13", "python3.12": "3.12"}, False, "/python3.12"),
        ({"python3": "3.13", "python3.10": "3.10"}, True, "/python3.10"),
        ({"python3": "3.13"}, False, "(Python 3.13) needs a C++ compiler"),
        ({"python3": "3.14"}, True, "uv python install 3.12"),
    ],
)
def test_the_python_that_quickstart_takes(pythons, has_compiler, expected, tmp_path):
    for name, version in pythons.items():
        version = version.replace(".", ", ")
        stub = STUB.format(python=sys.executable, version=version, folder=tmp_path)
        (tmp_path / name).write_text(stub)
    for name in ["Python.h", *["g++"] * has_compiler]:
        (tmp_path / name).touch()
    for path in tmp_path.iterdir():
        path.chmod(0o755)
    (tmp_path / "cat").symlink_to(shutil.which("cat"))
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    words = [shutil.which("bash"), str(REPO / "scripts" / "find_python.sh")]
    found = subprocess.run(words, env=env, capture_output=True, text=True)
    if expected.startswith("/"):
        assert found.stdout == f"{tmp_path}{expected}\n"
    else:
        assert found.returncode == 1 and expected in found.stderr and not found.stdout


def test_import_and_user_dir_in_any_folder(tmp_path):
    """Also where a folder has the package's name, such as in a clone."""
    if Path(USER_DIR) == REPO / "tupe_fairseq":
        pytest.skip("an editable installation works in the clone alone")
    (tmp_path / "tupe_fairseq").mkdir()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    python = [sys.executable, "-c", "from tupe_fairseq import TupeConfig"]
    subprocess.run(python, cwd=tmp_path, env=env, check=True)
    for folder in (tmp_path, tmp_path / "tupe_fairseq"):
        train = [BIN / "fairseq-train", "absent", "--user-dir", "tupe_fairseq"]
        train += ["--arch", "tupe_roberta_tiny", "--task", "tupe_masked_lm", "--batch-size", "1"]
        ended = subprocess.run(train, cwd=folder, env=env, capture_output=True, text=True)
        assert "absent" in ended.stderr.splitlines()[-1], ended.stderr
