"""What is told in the end: lines for people, or JSON for programs, and the exit code."""

import json

from tupe_fairseq.doctor.finding import EXIT_CODES, Finding, worst
from tupe_fairseq.version import __version__


def exit_code(findings: list[Finding]) -> int:
    """0 if nothing is wrong, 1 if there are warnings, 2 if there are errors."""
    return EXIT_CODES[worst(findings)]


def summary(findings: list[Finding]) -> str:
    """The last line."""
    numbers = {level: sum(one.level == level for one in findings) for level in EXIT_CODES}
    return f"{len(findings)} checks: " + ", ".join(f"{n} {level}" for level, n in numbers.items())


def as_json(findings: list[Finding]) -> str:
    """All of it as one JSON object."""
    content = {
        "version": __version__,
        "level": worst(findings),
        "exit_code": exit_code(findings),
        "checks": [finding.to_dict() for finding in findings],
    }
    return json.dumps(content, indent=2, ensure_ascii=False)
