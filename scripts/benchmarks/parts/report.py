"""The benchmark's results as a table and as JSON."""

import json
import platform
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from parts.rows import Row
from tupe_fairseq.compare.provenance import processor


def machine(device: torch.device) -> dict:
    """The machine and versions that the figures depend on."""
    name = processor()
    if device.type == "cuda":
        name = f"{torch.cuda.get_device_name()}, {name}"
    return {
        "device": name,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def print_row(console: Console, row: Row) -> None:
    table = Table(title=row.title, title_justify="left", title_style="bold")
    table.add_column("")
    headings = ["median ms", "least ms", f"ratio to {row.base}", "spread", "peak MiB"]
    if row.words:
        headings.insert(2, "words/s")
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, sample in row.samples.items():
        is_ours = name == row.ours
        cells = [
            name,
            f"{sample.median * 1e3:.1f}",
            f"{min(sample.seconds) * 1e3:.1f}",
            *([f"{row.words / sample.median:.0f}"] if row.words else []),
            f"{row.ratio(name):.3f}",
            f"{row.spread(name):.3f}",
            f"{sample.peak_bytes / 2**20:.0f}",
        ]
        table.add_row(*cells, style="bold" if is_ours else None)
    console.print(table)


def write_json(path: Path, results: dict) -> None:
    path.write_text(json.dumps(results, indent=1) + "\n")
