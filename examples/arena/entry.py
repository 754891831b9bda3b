"""Prints an entry of the arena as JSON, from the runs that run.sh made.

python examples/arena/entry.py arena-data/runs/rope
"""

import argparse
import datetime
import json
import math
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import torch
from longer import Masked

from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.checkpoint.model import Model
from tupe_fairseq.files import read_json
from tupe_fairseq.flags import user_dir
from tupe_fairseq.options import PositionOptions
from tupe_fairseq.runs.study import finished

HERE = Path(__file__).parent
BENCHMARK = HERE.parents[1] / "scripts" / "benchmarks" / "encodings.py"
DATA, LENGTHS, REFERENCE = "arena-data/bin", [128, 256], "rope"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", metavar="RUNS")
    parser.add_argument("--best-rate", action="store_true", help="print only this")
    parser.add_argument("--user-dir", type=user_dir, help="with your encoding")
    args, _ = parser.parse_known_args()  # others are of tupe-compare
    runs = finished(args.runs, "*", "*", "*")
    firsts = [run for run in runs.values() if run["seed"] == 1]
    rate = min(firsts, key=lambda run: run["final_loss"] or math.inf)["lr"]  # None: it diverged
    if args.best_rate:
        print(rate)
        return
    torch.set_num_threads(1)
    masked, step = Masked(DATA, LENGTHS), None
    for folder, run in runs.items():
        if run["lr"] == rate and run["diverged"] is None:
            model = Model.read(f"{folder}/checkpoint_last.pt", f"{DATA}/dict.txt")
            run["losses"] = {n: round(loss, 4) for n, loss in masked.losses(model).items()}
            step = step or step_seconds(model.config)
    results = read_json(f"{args.runs}/{rate}/results.json")
    entry = {
        "scheme": results["runs"][0]["scheme"],
        "flags": sys.argv[2:],
        "date": datetime.date.today().isoformat(),
        "commit": output("git", "-C", str(HERE), "rev-parse", "--short=8", "HEAD"),
        "rate": rate,
        "step_seconds": step,
        "baselines": {name: round(loss, 4) for name, loss in masked.baselines().items()},
        "settings": results["settings"],
        "runs": list(runs.values()),
    }
    print(json.dumps(entry, indent=1))


def step_seconds(config: TupeConfig) -> dict[str, float]:
    """CPU time of a training step of the encoder, and of the reference's, taken in turns."""
    reference = replace(config, **vars(PositionOptions(position_encoding=REFERENCE)))
    encoders = {"own": TupeEncoder(config), REFERENCE: TupeEncoder(reference)}
    words = torch.randn(16, LENGTHS[0], config.embed_dim)
    measured = runpy.run_path(str(BENCHMARK))["step_seconds"](encoders, words, 15)
    return {name: round(seconds, 4) for name, seconds in measured.items()}


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
