"""scripts/matrix: what counts as a failure of the suite, and of another line's checkpoint."""

import fcntl
import json
import re
import subprocess
import sys

import pytest

from helpers.running import REPO

# a program of its own, since its modules have short names
PROGRAM = """
import json, sys
from pathlib import Path
sys.path[:0] = [{folder!r}]
from exchange import _judged
from suite import Suite, counted
from table import row, table

for text in json.loads(sys.argv[2]):
    print(json.dumps(counted(text)))
read = _judged(Path(sys.argv[1]), 0, Path("log"))
print(json.dumps(read))
print(table([row("a", {{}}, Suite({{"passed": 5, "error": 2}}, 3.2, ""), read)]))
"""
SUMMARIES = {
    "=== 3 failed, 12 passed, 1 error in 33.20s (0:00:33) ===\n": {
        "failed": 3, "passed": 12, "error": 1,
    },
    "1 passed in 1.00s\nSKIPPED [2] a.py\n=== 4 passed, 2 skipped in 5.10s ===\n": {
        "passed": 4, "skipped": 2,
    },
    "== installing into x\nERROR: 2 passed\n": {},
}  # fmt: skip


@pytest.mark.parametrize(
    "fields, problem",
    [
        ({"way": "fairseq", "difference": 1.9e-6}, ""),
        ({"way": "fairseq", "difference": 2.1e-6}, "2.1e-06 apart, more than 2e-06"),
        ({"way": "fairseq", "difference": float("nan")}, "nan apart, more than 2e-06"),
        ({"way": "continued", "difference": 1.9e-5}, ""),
        ({"way": "continued", "difference": 2.1e-5}, "2.1e-05 apart, more than 2e-05"),
        ({"way": "fairseq", "refused": "Key"}, ""),
        ({"way": "converted here", "problem": "ValueError: no"}, "ValueError: no"),
    ],
)
def test_verdicts(fields, problem, tmp_path):
    good = {"writer": "b", "model": "rope", "way": "tupe_fairseq", "difference": 1e-7}
    records = [good, {**good, **fields}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    program = PROGRAM.format(folder=str(REPO / "scripts" / "matrix"))
    process = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "a.jsonl", json.dumps(list(SUMMARIES))],
        capture_output=True, text=True,
    )  # fmt: skip
    assert not process.returncode, process.stderr
    *counts, read, _, cells = process.stdout.splitlines()
    assert list(map(json.loads, counts)) == list(SUMMARIES.values())
    problems = json.loads(read)[-1]
    expected = [f"rope of b, {fields['way']}: {problem}"] if problem else []
    assert problems == expected
    assert re.match(r"a +- +- +- +5 +2 +0 +3 +", cells)
    assert cells.endswith("FAILED (1)") if problem else "OK: " in cells


def test_a_line_that_does_not_exist():
    command = [str(REPO / "scripts" / "matrix.sh"), "out", "--only", "main-2.7"]
    process = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    assert process.returncode == 2
    assert process.stderr.startswith("scripts/matrix.sh: error: --only main-2.7 is not one of ")
    assert process.stderr.count("\n") == 1


def test_two_in_one_folder(tmp_path):
    with open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [str(REPO / "scripts" / "matrix.sh"), tmp_path, "--only", "main-3.11"]
        process = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    assert process.returncode == 2
    assert process.stderr == f"scripts/matrix.sh: error: another one works in {tmp_path}\n"


@pytest.mark.parametrize("extras", ["fairseq,fairseq-fixed", "data,fairseq-fixed,plot,fairseq"])
def test_two_builds_of_fairseq_are_not_installed_into_one_environment(extras, tmp_path):
    command = [str(REPO / "scripts" / "setup_venv.sh"), sys.executable, tmp_path / "venv", extras]
    process = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    assert process.returncode == 2 and not (tmp_path / "venv").exists()
    assert process.stderr.startswith("setup_venv.sh: fairseq and fairseq-fixed are one module")
