"""Tables in markdown."""

from typing import Iterable


def markdown_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table, its first column flush left and the numbers flush right."""
    header = list(header)
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
