"""The rows of scripts/benchmarks that a new GPU is measured by: attention, or training steps."""

import argparse
import gc
import logging
import sys
from pathlib import Path

import torch
from kept_results import KeptResults, machine
from rich.console import Console

logging.disable(logging.WARNING)  # fairseq and our code log on every import and every model
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from tupe_fairseq.attention.triton_tiles import TILES  # noqa: E402

from parts.operator_cases import operator_cases  # noqa: E402
from parts.report import print_row  # noqa: E402
from parts.rows import Row  # noqa: E402


def cases(args, dtype):
    def say(title):
        print(title, flush=True)

    if args.part == "operators":
        given = args.longest, args.rounds, say, args.toy
        return operator_cases(torch.device(args.device), dtype, *given)
    from parts.claims import Claims  # needs fairseq

    return Claims(args, say).training_cases()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("part", choices=("operators", "steps"))
    add("out", type=Path)
    add("--device", default="cuda")
    add("--seconds", type=float, default=420)
    add("--rounds", type=int, default=5)
    add("--longest", type=int, default=8192)
    add("--reference-repo", type=Path)
    add("--toy", action="store_true")
    args = parser.parse_args()
    if args.toy:
        args.rounds, args.longest = 1, 64
    args.size = "tiny" if args.toy else "base"
    # those of another table of tiles are measured again
    about = machine(args.device, toy=args.toy, rounds=args.rounds, table=str(TILES))
    kept = KeptResults(args.out / f"{args.part}.json", about, args.seconds)
    console = Console(width=110)

    def measure(case):
        rows = [row.as_json() for row in case.measure()]
        gc.collect()  # models have cycles
        return rows

    def show(_, rows):
        if "failed" in rows:
            return console.print(rows)
        for row in rows:
            print_row(console, Row.from_json(row))

    dtype = torch.bfloat16 if args.device == "cuda" else torch.float32
    todo = cases(args, dtype)
    kept.run(((case.title, lambda case=case: measure(case)) for case in todo), show)


if __name__ == "__main__":
    main()
