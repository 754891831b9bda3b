"""Prints scripts/constraints.txt: the versions of the direct dependencies, for each Python.

    DIR/bin/pip inspect > 3.12.json     # an environment with the extra dev, for each Python
    python scripts/pin.py *.json > scripts/constraints.txt        # Python 3.11 or later

Or without an environment: pip install --dry-run --ignore-installed --report 3.12.json ".[dev]"
"""

import json
import re
import sys
from itertools import groupby
from pathlib import Path

import tomllib

# only the build of fairseq for Python 3.13 needs these
BUILD = {"cython", "fairseq-fixed", "setuptools"}

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
lines = sum(project["optional-dependencies"].values(), project["dependencies"])
names = BUILD | {re.match("[A-Za-z0-9_-]+", line)[0].lower() for line in lines}

pythons = {}  # (3, 12): {name: version}
for path in sys.argv[1:]:
    report = json.loads(Path(path).read_text())
    packages = [one["metadata"] for one in report.get("installed") or report["install"]]
    python = tuple(map(int, report["environment"]["python_version"].split(".")))
    pythons[python] = {one["name"].lower(): one["version"].partition("+")[0] for one in packages}
first, last = min(pythons), max(pythons)

print("# The versions that were tested, written by scripts/pin.py. Newer ones may work as well.")
for name in sorted(names - {"tupe_fairseq"}):
    found = [(python, pythons[python].get(name)) for python in sorted(pythons)]
    if name in BUILD:
        found = [(python, version if python == (3, 13) else None) for python, version in found]
    for version, same in groupby(found, lambda pair: pair[1]):
        same = [python for python, _ in same]
        marks = []
        if same[0] != first:
            marks.append(f'python_version >= "3.{same[0][1]}"')
        if same[-1] != last:
            marks.append(f'python_version < "3.{same[-1][1] + 1}"')
        if version:
            print(f"{name}=={version}" + "; " * bool(marks) + " and ".join(marks))
