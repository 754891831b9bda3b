"""Tables: in Markdown, and results.json, results.md and runs.csv with a row for each run."""

import csv
import os
from collections.abc import Iterable, Sequence
from typing import Any

from tupe_fairseq.files import atomic_write, write_json


def markdown_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table, with the first column left-aligned and the others right-aligned."""
    header = list(header)
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def write_tables(
    folder: str,
    content: dict[str, Any],
    text: str,
    runs: Sequence[dict[str, Any]] = (),
    left_out: Iterable[str] = (),
) -> None:
    """Write them; runs.csv has all values of the runs but those that are left out."""
    write_json(os.path.join(folder, "results.json"), content)
    with atomic_write(os.path.join(folder, "results.md")) as file:
        file.write(text)
    if runs:
        names = [name for name in dict.fromkeys(n for r in runs for n in r) if name not in left_out]
        with atomic_write(os.path.join(folder, "runs.csv")) as file:
            writer = csv.DictWriter(file, names, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(runs)
