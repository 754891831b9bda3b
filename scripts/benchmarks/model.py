"""Speed and memory of the model, compared with stock fairseq RoBERTa in alternating rounds.

    python scripts/benchmarks/model.py                       # about 15 minutes on 2 cores
    python scripts/benchmarks/model.py --reference-repo PATH # and with a checkout of TUPE's authors
    python scripts/benchmarks/model.py --full                # the whole grid: hours

Shows tables; writes results.json and curves.png.  Compare only ratios from one run on an otherwise
idle machine.  Needs the packages of the extra "bench".
"""

import argparse
import gc
import logging
import sys
from pathlib import Path

import torch
from rich.console import Console

logging.disable(logging.WARNING)  # fairseq and our code log on every import and every model

from parts import grid, report  # noqa: E402
from parts.authors import MODEL_FILE  # noqa: E402
from parts.claims import Claims  # noqa: E402
from parts.models import SIZES  # noqa: E402


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--output-dir", type=Path, default=Path("benchmark"), help="default: benchmark")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    add("--threads", type=int, help="CPU threads; default: torch's")
    add("--rounds", type=int, default=5, help="rounds measured, after a warm-up; default 5")
    add("--size", choices=SIZES, default="base", help="size of the whole models; default base")
    add("--only", choices=("claims", "curves"), help="one part of the default grid")
    add("--longest", type=int, default=2048, help="no T is longer than this; default 2048")
    add("--largest", type=int, default=16, help="largest batch of the curves; default 16")
    add("--full", action="store_true", help="every length, padding, dropout, dtype, mode and size")
    add(
        "--reference-repo",
        type=Path,
        metavar="PATH",
        help="a checkout of github.com/guolinke/TUPE, measured in a separate process",
    )
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds ({options.rounds}) must be at least 1")
    if options.longest < grid.LENGTHS[0]:
        parser.error(f"--longest ({options.longest}) must be at least {grid.LENGTHS[0]}")
    if options.largest < grid.BATCHES[0]:
        parser.error(f"--largest ({options.largest}) must be at least {grid.BATCHES[0]}")
    checkout = options.reference_repo
    if checkout is not None and not (checkout / MODEL_FILE).exists():
        parser.error(f"--reference-repo ({checkout}) holds no {MODEL_FILE}")
    if checkout is not None and (options.size != "base" or options.only == "curves"):
        parser.error("--reference-repo is measured with --size base and not with --only curves")
    if options.device not in ("cpu", "cuda"):
        parser.error(f"--device ({options.device}) is neither cpu nor cuda")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch sees no CUDA device here")
    return options


def main(arguments=None):
    options = parse(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    console = Console(width=max(Console().width, 110))
    results = {"machine": report.machine(device), "rounds": options.rounds, "rows": []}
    console.print(results["machine"])
    if options.reference_repo is None:
        console.print("authors' code: not measured, because --reference-repo was not given")
    options.output_dir.mkdir(parents=True, exist_ok=True)

    def keep(row):
        report.print_row(console, row)
        results["rows"].append(row.as_json())
        report.write_json(options.output_dir / "results.json", results)

    with console.status("") as status:
        say = status.update
        if options.only != "curves":
            for case in Claims(options, say).cases():
                for row in case.measure():
                    keep(row)
                gc.collect()  # models have cycles
        if options.only != "claims":
            results["saved_bytes"] = grid.saved(device, options.longest)
            results["kernels"] = grid.kernels(device)
            results["curves"] = grid.curves(device, dtype, options, say)
        if options.full:
            for row in grid.full(device, options, list(SIZES), say):
                keep(row)
    if "curves" in results:
        report.print_saved(console, results["saved_bytes"])
        title = "attention, 12 heads of 64, forward and backward, dropout 0.1"
        machine = f"{results['machine']['device']}, {results['machine']['threads']} threads"
        figure = options.output_dir / "curves.png"
        length = min(grid.BATCH_LENGTH, options.longest)
        report.plot(figure, results["curves"], length, f"{title}\n{machine}")
        console.print(f"wrote {figure}")
    report.write_json(options.output_dir / "results.json", results)
    console.print(f"wrote {options.output_dir / 'results.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
