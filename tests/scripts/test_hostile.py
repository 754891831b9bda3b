"""scripts/hostile: a sample of its inputs, and that it tells a fault from what is right."""

import json
import re
import sys

from helpers.running import REPO, run

FOLDER = REPO / "scripts" / "hostile"
# a program of its own, since its modules have short names
VERDICTS = """
import sys
sys.path[:0] = [{folder!r}]
from case import CANARY, REFUSED, SAME, VALUE
from forked_trial import Outcome
from readers import READERS
from verdict import verdict

encode = READERS["encode"]
there = {{"model.pt": (3, b"abc"), "in.txt": (2, b"x\\n")}}
npy = b"\\x93NUMPY" + bytes(122)
good, other, nan = npy + bytes(4), npy + b"\\0\\0\\x80\\x3f", npy + b"\\0\\0\\xc0\\x7f"
line = "tupe-encode: error: model.pt is damaged\\n"

def of(code, output="", right=SAME, seconds=1.0, mib=1.0, sound=good, **new):
    after = {{**there, **{{name.replace("_", "."): (1, given) for name, given in new.items()}}}}
    if "CODE" in new:
        after[CANARY] = (-1, b"folder")
    print(verdict(Outcome(code, output, seconds, mib), encode, right, there, after, sound)[0])

of(2, line)
of(0, out_npy=good)
of(0, right=VALUE, out_npy=other)
of(0, out_npy=other)
of(0, right=VALUE, out_npy=nan)
of(0, right=REFUSED, out_npy=good)
of(0)
of(2, line, CODE=b"")
of(2, line, seconds=21)
of(None, line)
of(2, line, mib=1025)
of(-11)
of(1, "Traceback (most recent call last):\\nKeyError: 'a'\\n")
of(2, line + "and more\\n")
of(2, "tupe-encode: error: it is damaged\\n")
of(2, "tupe-encode: error: model.pt has \\x1b[2J in it\\n")
of(2, "tupe-encode: error: model.pt " + "x" * 1000 + "\\n")
of(2, line, out_npy=good)
"""
EXPECTED = [
    "refused", "accepted: the same", "accepted: another value", "silent", "silent", "silent",
    "nothing written", "code ran", "hang", "hang", "memory", "crash", "traceback",
    "not one line", "vague", "control characters", "long line", "partial",
]  # fmt: skip


def test_verdicts(tmp_path):
    program = tmp_path / "verdicts.py"
    program.write_text(VERDICTS.format(folder=str(FOLDER)))
    assert run(sys.executable, program).stdout.splitlines() == EXPECTED


def test_a_sample_ends_as_it_should(tmp_path):
    """One of each kind; the whole takes half an hour."""
    output = tmp_path / "results.jsonl"
    process = run(
        sys.executable, FOLDER / "try_inputs.py", "--limit", 1, "--output-file", output, check=False
    )
    assert process.returncode == 0, process.stdout[-3000:]
    trials = [json.loads(line) for line in output.read_text().splitlines()]
    assert len({trial["kind"] for trial in trials}) >= 9
    assert all(trial["code"] in (0, 1, 2) and trial["seconds"] < 20 for trial in trials)
    assert re.search(r"inputs, 10 trials in \d+ s: 0 not as they should be", process.stdout)
