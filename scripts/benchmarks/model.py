"""Speed and memory of the model, compared with stock fairseq RoBERTa in alternating rounds.

    python scripts/benchmarks/model.py                       # about 15 minutes on 2 cores
    python scripts/benchmarks/model.py --reference-repo PATH # and with a checkout of TUPE's authors

Shows tables; writes results.json.  Compare only ratios from one run on an otherwise
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

from parts import report  # noqa: E402
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
    add("--longest", type=int, default=2048, help="no T is longer than this; default 2048")
    add(
        "--reference-repo",
        type=Path,
        metavar="PATH",
        help="a checkout of github.com/guolinke/TUPE, measured in a separate process",
    )
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds ({options.rounds}) must be at least 1")
    if options.longest < 128:
        parser.error(f"--longest ({options.longest}) must be at least 128")
    checkout = options.reference_repo
    if checkout is not None and not (checkout / MODEL_FILE).exists():
        parser.error(f"--reference-repo ({checkout}) holds no {MODEL_FILE}")
    if checkout is not None and options.size != "base":
        parser.error("--reference-repo is measured with --size base")
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
    console = Console(width=max(Console().width, 110))
    results = {"machine": report.machine(device), "rounds": options.rounds, "rows": []}
    console.print(results["machine"])
    if options.reference_repo is None:
        console.print("authors' code: not measured, because --reference-repo was not given")
    options.output_dir.mkdir(parents=True, exist_ok=True)

    with console.status("") as status:
        for row in Claims(options, status.update).rows():
            report.print_row(console, row)
            results["rows"].append(row.as_json())
            report.write_json(options.output_dir / "results.json", results)
            gc.collect()  # models have cycles
    console.print(f"wrote {options.output_dir / 'results.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
