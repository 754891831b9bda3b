"""The test suite in the environment of a line, and what its log says in the end."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, NamedTuple

from lines import Line

REPO = Path(__file__).resolve().parents[2]


class Suite(NamedTuple):
    """How a run of the suite ended.

    Args:
        counts (dict): passed, failed, skipped, error: how many of each.
        seconds (float): that it took.
        problem (str): why it does not count as passed; empty if it does.
    """

    counts: Dict[str, int]
    seconds: float
    problem: str


def run_suite(line: Line, python: str, venv: Path, log: Path, tests: List[str]) -> Suite:
    """Run scripts/test.sh for one line.

    Args:
        line (Line): which.
        python (str): its interpreter.
        venv (Path): its environment; made if it is not there.
        log (Path): file for what is printed.
        tests (list of str): files and folders of tests; all if there are none.
    """
    begun = time.monotonic()
    env = {**os.environ, "PYTHON": python, "VENV": str(venv), "FAIRSEQ": line.fairseq}
    command = [str(REPO / "scripts" / "test.sh"), "--alone" if line.fairseq else "--core", *tests]
    with open(log, "w") as file:
        code = subprocess.run(command, env=env, stdout=file, stderr=subprocess.STDOUT).returncode
    counts = counted(log.read_text(errors="replace"))
    problem = "" if code == 0 and counts.get("passed") else f"exit code {code}, see {log}"
    return Suite(counts, time.monotonic() - begun, problem)


def counted(text: str) -> Dict[str, int]:
    """The numbers in the last line that pytest prints; none if it has printed no such line."""
    summaries = re.findall(r"^(?:=+ )?(\d+ \w+.*) in [\d.]+s", text, re.MULTILINE)
    if not summaries:
        return {}
    return {word.rstrip("s"): int(n) for n, word in re.findall(r"(\d+) (\w+)", summaries[-1])}


def set_up(line: Line, python: str, venv: Path, log: Path) -> str:
    """Make the environment of a line without running its tests; why that failed, or nothing."""
    env = {**os.environ, "PYTHON": python, "VENV": str(venv), "FAIRSEQ": line.fairseq}
    command = [str(REPO / "scripts" / "test.sh"), "--set-up", *([] if line.fairseq else ["--core"])]
    with open(log, "w") as file:
        code = subprocess.run(command, env=env, stdout=file, stderr=subprocess.STDOUT).returncode
    return f"no environment: exit code {code}, see {log}" if code else ""


def versions(venv: Path) -> Dict[str, str]:
    """Python, torch and fairseq of an environment, as they call themselves."""
    program = (
        "import sys, importlib.metadata as m\n"
        "have = {d.metadata['Name']: d.version for d in m.distributions()}\n"
        "print('Python', '%d.%d.%d' % sys.version_info[:3])\n"
        "print('torch', have.get('torch', 'none'))\n"
        "names = [n for n in have if n.replace('_', '-') in ('fairseq', 've-fairseq', "
        "'fairseq-fixed')]\n"
        "print('fairseq', ', '.join(n + ' ' + have[n] for n in names) or 'none')\n"
    )
    asked = subprocess.run(
        [str(venv / "bin" / "python"), "-c", program], stdout=subprocess.PIPE, text=True
    )
    if asked.returncode:
        print(f"scripts/matrix.sh: {venv} does not run", file=sys.stderr)
        return {}
    return dict(row.split(" ", 1) for row in asked.stdout.splitlines())
