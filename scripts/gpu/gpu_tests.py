"""The tests that need a GPU, as one run of pytest; passed if some ran and none failed."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

REPO = Path(__file__).resolve().parents[2]


def counted(report: Path) -> dict:
    """How many there were, and which failed, of pytest's report in XML."""
    cases = list(ElementTree.parse(report).iter("testcase"))
    outcomes = {"failed": [], "skipped": {}}
    for case in cases:
        name = f"{case.get('classname')}::{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            outcomes["failed"].append(name)
        elif case.find("skipped") is not None:
            reason = case.find("skipped").get("message", "")
            outcomes["skipped"][reason] = outcomes["skipped"].get(reason, 0) + 1
    skipped = sum(outcomes["skipped"].values())
    return {"passed": len(cases) - skipped - len(outcomes["failed"]), **outcomes}


def main() -> None:
    out = Path(sys.argv[1])
    words = ["-q", "-rs", "-m", "gpu", "-p", "no:cacheprovider", f"--junitxml={out / 'tests.xml'}"]
    # the others need not be importable: hypothesis, transformers and so on may not be there
    files = [
        path for path in (REPO / "tests").rglob("test_*.py") if "@needs_gpu" in path.read_text()
    ]
    if importlib.util.find_spec("fairseq") is None:
        print("without fairseq: only the tests of what needs torch alone")
        words.append("--core")
    command = [sys.executable, "-m", "pytest", *words, *map(str, sorted(files))]
    code = subprocess.run(command, cwd=REPO).returncode
    result = counted(out / "tests.xml")
    (out / "tests.json").write_text(json.dumps(result, indent=1) + "\n")
    print(f"tests: {result['passed']} passed, {len(result['failed'])} FAILED", *result["failed"])
    sys.exit(code or not result["passed"])


if __name__ == "__main__":
    main()
