"""Restores the folders of the runs in a study's results.json, so that tupe-compare skips them.

python examples/results/restore.py examples/results/study
"""

import os
import sys

from tupe_fairseq.compare.schemes import parse_scheme
from tupe_fairseq.files import read_json, write_json


def main(folder: str) -> None:
    results = read_json(os.path.join(folder, "results.json"))
    runs = [("", run) for run in results["runs"]]
    for row in results["tuning"]:  # the short runs, with their final losses alone
        for lr, loss in row["losses"]:
            run = {**row, "seed": 1, "lr": lr, "final_loss": loss, "downstream": {}}
            runs.append((f"tuning/lr{lr!r}", {**run, "diverged": None if loss else "yes"}))
    for place, run in runs:
        name = f"{parse_scheme(run['scheme']).folder}-seed{run['seed']}"
        path = os.path.join(folder, place, run["arch"], name, "result.json")
        if not os.path.exists(path):
            write_json(path, run)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1])
    except OSError as error:
        sys.exit(f"restore.py: {error}")
