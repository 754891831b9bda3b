"""Prints card.md, the part of the model card that tupe-export does not write, with the results.

python examples/models/card.py model-data/measured
"""

import glob
import os
import re
import sys
from collections import Counter
from statistics import fmean

from tupe_fairseq.files import read_json
from tupe_fairseq.results.page import table


def blimp(folder: str) -> str:
    pairs, right = Counter(), Counter()
    for path in glob.glob(os.path.join(folder, "*", "results.json")):
        for name, counts in read_json(path)["pairs"]["phenomena"].items():
            pairs[name] += counts["pairs"]
            right[name] += counts["right"]
    rows = [(name.replace("_", " "), n, percent(right[name] / n)) for name, n in pairs.items()]
    total = ("**all**", pairs.total(), f"**{percent(right.total() / pairs.total())}**")
    return table(dict(zip(("phenomenon", "pairs", "right, %"), x)) for x in [*sorted(rows), total])


def glue(folder: str) -> str:
    rows = []
    for name in ("CoLA", "SST-2", "MRPC", "STS-B", "RTE"):
        results = read_json(os.path.join(folder, name, "results.json"))
        scores = [run["metrics"]["valid"] for run in results["runs"]]
        means = {x: percent(fmean(score[x] for score in scores)) for x in scores[0]}
        kept = [f"{x} {means[x]}" for x in means if x != "pearson_and_spearman"]
        rows.append({"task": name, "mean of three seeds": ", ".join(kept)})
    return table(rows)


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def main(folder: str) -> None:
    with open(os.path.join(folder, "valid.log"), encoding="utf-8") as log:
        (*_, loss) = re.findall(r"loss ([0-9.]+)", log.read())
    tables = {"blimp": blimp(f"{folder}/blimp"), "glue": glue(f"{folder}/glue")}
    with open(os.path.join(os.path.dirname(__file__), "card.md"), encoding="utf-8") as card:
        print(card.read().format(loss=loss, **{x: y.strip() for x, y in tables.items()}), end="")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1])
    except OSError as error:
        sys.exit(f"card.py: {error}")
