"""The benchmark's results as a table, as JSON and as a figure."""

import json
import platform
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from parts.rows import Row
from tupe_fairseq.compare.provenance import processor

# One colour for each competitor, the same in every panel; distinguishable without colour by
# markers.
STYLES = {
    "unbiased fused kernel": ("0.6", "o"),
    "stock RoBERTa": ("tab:orange", "s"),
    "eager": ("tab:red", "^"),
    "sdpa": ("tab:purple", "v"),
    "chunked": ("tab:blue", "D"),
}


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
    title = row.title
    if row.target is not None and row.ours in row.samples:
        verdict = "met" if row.ratio(row.ours) <= row.target else "MISSED"
        title += f"\ntarget: {row.ours} at most {row.target} of {row.base}: {verdict}"
    table = Table(title=title, title_justify="left", title_style="bold")
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


def print_saved(console: Console, saved: list) -> None:
    if not saved:
        return
    table = Table(
        title="kept for backward by one layer's attention, beyond q, k, v and output, B4, MiB",
        title_justify="left",
        title_style="bold",
    )
    for name in saved[0]:
        table.add_column(name, justify="right")
    for entry in saved:
        cells = [str(entry["T"])]
        cells += [f"{entry[name] / 2**20:.2f}" for name in entry if name != "T"]
        table.add_row(*cells)
    console.print(table)


def write_json(path: Path, results: dict) -> None:
    path.write_text(json.dumps(results, indent=1) + "\n")


def plot(path: Path, curves: dict, batch_length: int, title: str) -> None:
    """Time and memory of attention against length and batch."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(11, 8), constrained_layout=True)
    labels = {"length": "length T, batch 1", "batch": f"batch, T = {batch_length}"}
    for column, (axis, entries) in enumerate(curves.items()):
        xs = [entry["x"] for entry in entries]
        for name in (name for name in entries[0] if name != "x"):
            color, marker = STYLES.get(name, ("black", "x"))
            times = [entry[name]["median_s"] * 1e3 for entry in entries]
            peaks = [entry[name]["peak_bytes"] / 2**20 for entry in entries]
            style = {"color": color, "marker": marker, "label": name, "linewidth": 1.6}
            axes[0][column].plot(xs, times, **style)
            axes[1][column].plot(xs, peaks, **style)
        for row, label in ((0, "ms"), (1, "MiB at the peak")):
            panel = axes[row][column]
            panel.set_xscale("log", base=2)
            panel.set_yscale("log")
            panel.set_xticks(xs, [str(x) for x in xs])
            panel.set_xlabel(labels[axis])
            panel.set_ylabel(label)
            panel.grid(True, which="both", alpha=0.25)
    axes[0][0].legend(frameon=False)
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
    plt.close(figure)
