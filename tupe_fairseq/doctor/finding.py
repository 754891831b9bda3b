"""What one check found, and what runs a check."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

OK, WARNING, ERROR = "ok", "warning", "error"
#: the exit code that the worst of them gives
EXIT_CODES = {OK: 0, WARNING: 1, ERROR: 2}


class Finding(NamedTuple):
    """The result of one check.

    Args:
        name (str): of the check.
        level (str): one of ``EXIT_CODES``.
        found (str): what is there.
        wrong (str): what is wrong with it; empty if nothing is.
        command (str): the command that mends it, or what to do if no command can.
    """

    name: str
    level: str
    found: str
    wrong: str = ""
    command: str = ""

    @property
    def line(self) -> str:
        """All of it in one line."""
        text = f"{self.level:<8} {self.name}: {self.found}"
        text += f"; {self.wrong}" if self.wrong else ""
        text += f"; to mend it: {self.command}" if self.command else ""
        return " ".join(text.split("\n"))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dict(self._asdict())


#: what a check gives: one finding, or several, one after the other
Findings = Finding | Iterable[Finding]


def brief(error: BaseException) -> str:
    """An exception in one line of bounded length."""
    text = " ".join(str(error).split()) or "no reason given"
    return f"{type(error).__name__}: {text if len(text) <= 300 else text[:297] + '...'}"


def run_checks(checks: dict[str, Callable[[], Findings]]) -> Iterator[Finding]:
    """Run checks one after the other; one that fails itself is a finding, and the next one runs.

    Args:
        checks (dict): by the name under which a failure is told.
    """
    for name, check in checks.items():
        try:
            yield from _listed(check())
        except Exception as error:  # whatever a broken installation can raise
            yield Finding(name, ERROR, "the check itself failed", brief(error))


def _listed(found: Findings) -> Iterator[Finding]:
    if isinstance(found, Finding):
        yield found
    else:
        yield from found


def worst(findings: list[Finding]) -> str:
    """The gravest level."""
    return max((finding.level for finding in findings), key=EXIT_CODES.__getitem__, default=OK)
