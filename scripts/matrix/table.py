"""The table in the end."""

from typing import Dict, List, Optional

from exchange import Read
from suite import Suite

_HEAD = [
    "line", "Python", "torch", "fairseq", "passed", "failed", "skipped", "seconds",
    "others' checkpoints",
]  # fmt: skip


def row(
    name: str, versions: Dict[str, str], suite: Optional[Suite], read: Optional[Read]
) -> List[str]:
    """The cells of one line.

    Args:
        name (str): of the line.
        versions (dict): of Python, torch and fairseq; empty without an environment.
        suite (Suite, optional): what its tests gave.
        read (Read, optional): what it made of the others' checkpoints.
    """
    cells = [name, *(versions.get(key, "-") for key in ("Python", "torch", "fairseq"))]
    if suite is None:
        cells += ["-"] * 4
    else:
        failed = suite.counts.get("failed", 0) + suite.counts.get("error", 0)
        passed, skipped = (suite.counts.get(key, 0) for key in ("passed", "skipped"))
        cells += [*map(str, (passed, failed, skipped)), f"{suite.seconds:.0f}"]
    return [*cells, "-" if read is None else _said(read)]


def table(rows: List[List[str]]) -> str:
    """The rows below their head, in columns."""
    widths = [max(len(cells[i]) for cells in [_HEAD, *rows]) for i in range(len(_HEAD))]
    lines = [_HEAD, *rows]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(one, widths)).rstrip() for one in lines)


def _said(read: Read) -> str:
    if read.problems:
        return f"FAILED ({len(read.problems)})"
    refused = f"; {read.refused} need tupe-convert" if read.refused else ""
    apart = f"{read.largest:.1e}, trained on {read.trained:.1e}"
    return f"OK: {read.checks} checks, largest difference {apart}{refused}"
