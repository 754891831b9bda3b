"""Writes the two forms of a result together."""

import os
from typing import Any

from tupe_fairseq.files.atomic import atomic_write, write_json


def write_results(folder: str, content: dict[str, Any], table: str) -> None:
    """Write FOLDER/results.json and FOLDER/results.md: both or, on a full disk, neither."""
    with atomic_write(os.path.join(folder, "results.md")) as file:
        file.write(table)
        # a full disk shows now, before the other one has its name
        file.flush()
        write_json(os.path.join(folder, "results.json"), content)
