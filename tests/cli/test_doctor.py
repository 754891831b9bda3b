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


def test_this_installation_and_files_that_fit(tmp_path):
    crafted.save(crafted.whole_state(), tmp_path / "model.pt")
    (tmp_path / "dict.txt").write_text("\n".join(crafted.LINES) + "\n")
    write_bin(tmp_path / "train", [[9] * 14 + [2], [7, 2]])
    code, text = call_program("doctor", ["--checkpoint", tmp_path / "model.pt", "--data", tmp_path])
    lines = text.splitlines()
    assert code == 0 and all(line.startswith("ok ") for line in lines), text
    assert len(lines) == 8 and "cpu trains with chunked attention" in lines[5]
    assert lines[-1].endswith("2 rows in train, the longest of 16 tokens")


def test_files_that_do_not_fit(tmp_path):
    crafted.save(crafted.whole_state(), tmp_path / "model.pt")
    data = tmp_path / "data"
    for number in (0, 1):
        (data / f"input{number}").mkdir(parents=True)
        write_bin(data / f"input{number}" / "train", [[9] * 7 + [2]])
    (data / "input0" / "dict.txt").write_text("\n".join(crafted.LINES) + "\n")
    found = doctor.check_data(str(data), None)
    assert found.endswith("1 rows in train, the longest of 18 tokens")  # <s> 8 </s> 8
    with pytest.raises(doctor.Doubt, match=r"max_positions \(16\), so tupe-finetune truncates it"):
        doctor.check_data(str(data), str(tmp_path / "model.pt"))
    (tmp_path / "dict.txt").write_text("\n".join(reversed(crafted.LINES)) + "\n")
    code, text = call_program("doctor", ["--checkpoint", tmp_path / "model.pt"])
    assert code == 2 and "wrong    checkpoint: " in text and "different vocabulary" in text


def test_a_python_without_torch_and_without_fairseq(tmp_path):
    found = doctor_without_site(tmp_path)
    assert found["torch"].endswith("No module named 'numpy'")
    assert found["fairseq"].startswith("warning  fairseq: not installed")
    assert found["extras"].startswith("ok       extras: without data, fairseq, fastbpe, hf, onnx")


def test_two_fairseqs_and_one_that_cannot_be_imported(tmp_path):
    for name in ("fairseq", "another_build"):
        info = tmp_path / f"{name}-9.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9\n")
        (info / "top_level.txt").write_text("fairseq\n")
    (tmp_path / "fairseq.py").write_text("raise OSError('lib.so.9: not found')\n")
    found = doctor_without_site(tmp_path)["fairseq"]
    assert "another_build and fairseq have overwritten" in found
    (tmp_path / "another_build-9.dist-info" / "METADATA").unlink()
    (tmp_path / "another_build-9.dist-info" / "top_level.txt").unlink()
    found = doctor_without_site(tmp_path)["fairseq"]
    assert found.startswith("wrong    fairseq: cannot be imported (lib.so.9: not found); pip ")
