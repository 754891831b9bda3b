"""scripts/gpu_check.sh where there is no GPU: everything but the figures, at toy sizes."""

import json
import subprocess
import sys
import zipfile

import pytest
import torch

from helpers.running import REPO
from helpers.triton_cases import needs_triton

SCRIPT = REPO / "scripts" / "gpu_check.sh"
FOLDER = REPO / "scripts" / "gpu"
# a program of its own, since its modules have short names, and Triton interprets from its start on
PARTS = """
import os, sys
os.environ.update(TRITON_INTERPRET="1")
sys.path[:0] = [{folder!r}, {tests!r}]
from helpers.triton_cases import hasten_interpreter
hasten_interpreter()
import attending, kept_results, torch
import agreement, comparisons, tiles

def ended(main, *words):
    sys.argv[1:] = [*words, "--device", "cpu", "--toy"]
    try:
        return main() or 0
    except SystemExit as stop:
        return stop.code

out = sys.argv[1]
"""


def program(tmp_path, text):
    """What the parts print, run in one process."""
    file = tmp_path / "parts.py"
    given = {"folder": str(FOLDER), "tests": str(REPO / "tests")}
    file.write_text(PARTS.format(**given) + text)
    process = subprocess.run(
        [sys.executable, file, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    assert not process.returncode, process.stdout
    return process.stdout


@needs_triton
@pytest.mark.skipif(
    not hasattr(torch.nn.functional, "scaled_dot_product_attention"), reason="needs torch 2.1"
)
def test_every_part_that_needs_torch_alone(tmp_path):
    """Twice: the second time nothing is measured again.  And what is wrong is a failure."""
    said = program(
        tmp_path,
        """
assert ended(agreement.main, out) == 0
assert ended(comparisons.main, "operators", out) == 0
assert ended(tiles.main, out, "--seconds", "0") == 75
print("== again")
known = agreement.measured, agreement.dropped
for module in (agreement, tiles, comparisons):
    module.measured = module.dropped = module.Timer = None
ended(comparisons.main, "operators", out)
assert ended(agreement.main, out) == 0
print("== wrong")
from tupe_fairseq.attention import IMPLEMENTATIONS
from tupe_fairseq.attention.choice import Implementation

def other_scaling(*given, scaling, **options):
    return eager(*given, scaling=1.001 * scaling, **options)

def not_scaled_up(*given, dropout, **options):
    return eager(*given, dropout=dropout, **options) * (1 - dropout)

def another_mask(*given, **options):
    one, other = (eager(*given, **options) for _ in range(2))
    return one.detach() + other - other.detach()

eager = IMPLEMENTATIONS["eager"].attend
for name in set(IMPLEMENTATIONS) - {"eager"}:
    del IMPLEMENTATIONS[name]
for wrong in (other_scaling, not_scaled_up, another_mask):
    IMPLEMENTATIONS[wrong.__name__] = Implementation(wrong, lambda *given: None)
agreement.measured, agreement.dropped = known
assert ended(agreement.main, out + "/wrong") == 1
""",
    )
    first, again = said.split("== wrong\n")[0].split("== again\n")
    wrong = json.loads((tmp_path / "wrong" / "agreement.json").read_text())["cases"]
    failed = {name.rsplit(maxsplit=1)[-1] for name, case in wrong.items() if not case["ok"]}
    assert failed == {"other_scaling", "not_scaled_up", "another_mask"}
    results = json.loads((tmp_path / "agreement.json").read_text())
    cases = results["cases"]
    assert results["machine"]["interpreted"] and all(case["ok"] for case in cases.values())
    assert sum(name.endswith("triton") for name in cases) == 4
    (in_factors,) = (case for name, case in cases.items() if name.endswith("triton, in factors"))
    assert len(in_factors["errors"]) == 5
    assert f"agreement: {len(cases)} cases, 0 FAILED" in first
    assert f"agreement: {len(cases)} cases, 0 FAILED" in again
    operators = json.loads((tmp_path / "operators.json").read_text())["cases"]
    assert len(operators) == 2
    for (row,) in operators.values():
        assert row["ours"] == "triton"
        assert all(row["columns"][f"triton{kind}"]["ratio"] > 0 for kind in ("", ", in factors"))
    assert "time is over before" in first


@needs_triton
def test_tiles(tmp_path):
    """The table is Python; what does not fit is told, and a wrong or slow one is not taken."""
    said = program(
        tmp_path,
        """
from tupe_fairseq.attention.triton_tiles import TILES

kind, kernel = (False, False, True), "grad_q_kernel"
own = dict(TILES[kind][kernel])
kept = kept_results.KeptResults(__import__("pathlib").Path(out) / "x.json", {})
found = list(tiles.candidates(kind, kernel, tiles.TOY_GRID))
assert found[0].tile == own and len(found) == 2
timer = tiles.Timer("cpu", toy=True)
result = timer.measure(found[1])
assert result["ratios"][0] > 0 and result["error"] < 8, result
odd = found[1]._replace(tile={**own, "BLOCK_Q": 24})
assert "failed" in timer.measure(odd), "24 is no power of two"
assert TILES[kind][kernel] == own
for name, value, taken in (
    ("slower", {"ratios": [1.1], "error": 1}, False),
    ("wrong", {"ratios": [0.5], "error": 99}, False),
    ("nan", {"ratios": [0.5], "error": float("nan")}, False),
    ("failed", {"failed": "no room"}, False),
    ("ended", "begun", False),
    ("better", {"ratios": [0.5], "error": 1}, True),
):
    kept.put(str(found[1]), value)
    table = tiles.best_table(kept, tiles.TOY_GRID, [kind])
    assert (table[kind][kernel] == found[1].tile) == taken, name
read = {}
exec(tiles.source(table), read)
assert read["TILES"] == table
print("all of it")
""",
    )
    assert said.endswith("all of it\n")


@pytest.mark.parametrize(
    "words, message",
    [
        (["agree"], "PART agree is not one of tests, agreement, tiles, operators, steps, words"),
        (["--device", "cpu"], "--device cpu and --interpret go together"),
        (["--wheels", "."], "--wheels . holds no file *.whl"),
        (["--data", "."], "--data . has no dict.txt"),
        (["--reference-repo", "docs"], "--reference-repo docs has no folder fairseq"),
    ],
    ids=lambda value: None if isinstance(value, str) else value[0],
)
def test_what_is_wrong_is_told_in_one_line(words, message, tmp_path):
    process = subprocess.run(
        [SCRIPT, tmp_path / "out", *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    assert process.returncode == 2
    assert message in process.stderr.splitlines()[-1]


def test_a_part_is_logged_and_its_failure_is_the_exit_code(tmp_path):
    """No test ran, says a pytest that comes from a wheel."""
    with zipfile.ZipFile(tmp_path / "pytest-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr(
            "pytest.py",
            "import sys\n"
            "(path,) = [word[11:] for word in sys.argv if word.startswith('--junitxml=')]\n"
            "open(path, 'w').write('<testsuites><testsuite/></testsuites>')\n"
            "print('of a wheel')\nsys.exit(5)\n",
        )
    words = [SCRIPT, tmp_path / "out", "tests", "--device", "cpu", "--interpret"]
    words += ["--wheels", tmp_path]
    process = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    assert process.returncode == 1
    assert process.stdout.endswith("tests       FAILED (5)\n")
    log = (tmp_path / "out" / "tests.txt").read_text()
    assert "of a wheel\n" in log and "tests: 0 passed, 0 FAILED" in log
