"""Writes tables in Markdown, and results.json with results.md."""

import html
import math
import os
import re
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import Any

from tupe_fairseq.files import atomic_write, write_json

# characters of a text in a cell
_LONGEST = 300


def in_cell(value: Any) -> str:
    """A value, such as a user's text or label, escaped for Markdown; long text is truncated."""
    text = ", ".join(value) if isinstance(value, list) else str(value)
    text = " ".join(text.split())
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + "\u2026"
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", html.escape(text, quote=False))


def markdown_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table, with the first column left-aligned and the others right-aligned."""
    header = list(header)
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def spread(values: Sequence[float | None]) -> dict[str, Any] | None:
    """``n``, ``mean``, ``min``, ``max`` of the values that are not None; None if there are none.

    The 95% interval of the mean, by Student's t, is the mean ± ``margin95`` (None for one value).
    """
    from scipy.stats import t

    known = [value for value in values if value is not None]
    if not known:
        return None
    n, margin = len(known), None
    if n > 1:
        margin = float(t.ppf(0.975, n - 1)) * stdev(known) / math.sqrt(n)
    return {"n": n, "mean": fmean(known), "min": min(known), "max": max(known), "margin95": margin}


def page(parts: Iterable[str]) -> str:
    """Titles, paragraphs and tables, joined by blank lines; empty ones are left out."""
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def write_tables(folder: str, content: dict[str, Any], text: str) -> None:
    """Write results.json and results.md."""
    write_json(os.path.join(folder, "results.json"), content)
    with atomic_write(os.path.join(folder, "results.md")) as file:
        file.write(text)
