"""tupe-doctor on this installation, on broken ones, and on files that do not fit together."""

import os
import subprocess
import sys

import pytest

from helpers import crafted
from helpers.glue_data import write_bin
from helpers.running import ENV, REPO, call_program
from tupe_fairseq.cli import doctor


def doctor_without_site(folder):
    """-S leaves out site-packages: only Python, this package, and what the folder has."""
    process = subprocess.run(
        [sys.executable, "-S", "-m", "tupe_fairseq", "doctor"], cwd=folder, text=True,
        env={**ENV, "PYTHONPATH": f"{folder}{os.pathsep}{REPO}"}, capture_output=True,
    )  # fmt: skip
    assert process.returncode == 2 and not process.stderr
    return {line.split()[1].strip(":"): line for line in process.stdout.splitlines()}


def test_this_installation_and_files(tmp_path):
    crafted.save(crafted.whole_state(), tmp_path / "model.pt")
    (tmp_path / "dict.txt").write_text("\n".join(crafted.LINES) + "\n")
    write_bin(tmp_path / "train", [[9] * 14 + [2], [7, 2]])
    words = ["--checkpoint", tmp_path / "model.pt", "--data", tmp_path]
    code, text = call_program("doctor", words)
    lines = text.splitlines()
    assert code == 0 and all(line.startswith("ok ") for line in lines), text
    assert lines[-1].endswith("2 rows in train, the longest of 16 tokens")
    write_bin(tmp_path / "train", [[9] * 15 + [2]])
    with pytest.raises(doctor.Doubt, match=r"max_positions \(16\)"):
        doctor.check_data(str(tmp_path), str(tmp_path / "model.pt"))
    (tmp_path / "dict.txt").write_text("\n".join(reversed(crafted.LINES)) + "\n")
    code, text = call_program("doctor", words)
    assert code == 2 and "wrong    checkpoint: " in text and "different vocabulary" in text


def test_a_python_without_torch_and_with_two_fairseqs(tmp_path):
    found = doctor_without_site(tmp_path)
    assert found["torch"].endswith("No module named 'numpy'")
    assert found["fairseq"].startswith("warning  fairseq: not installed")
    for name in ("fairseq", "another_build"):
        info = tmp_path / f"{name}-9.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9\n")
        (info / "top_level.txt").write_text("fairseq\n")
    (tmp_path / "fairseq.py").write_text("raise OSError('lib.so.9: not found')\n")
    found = doctor_without_site(tmp_path)["fairseq"]
    assert "another_build and fairseq have overwritten" in found
