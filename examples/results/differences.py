"""Prints PLAN.md's comparisons with intervals and draws blimp.png, from a study's results.json.

python examples/results/differences.py examples/results/study/results.json
"""

import os
import sys
from statistics import fmean

from tupe_fairseq.compare.results import updates_to_reach
from tupe_fairseq.figures import canvas
from tupe_fairseq.files import read_json
from tupe_fairseq.results.intervals import over_seeds
from tupe_fairseq.results.page import seeds_cell, table

COMPARISONS = (
    ("tupe", "learned"),
    ("tupe --rel-pos", "none --rel-pos"),
    ("tupe --rel-pos", "tupe"),
    ("alibi", "learned"),
    ("alibi --untie-cls", "alibi"),
    ("tupe", "tupe --tie-cls"),
    ("tupe --rel-pos", "rope"),
    ("tupe --rel-pos", "fire"),
    ("tupe --rel-pos", "pope"),
)
#: for each column the smallest difference that counts, and the sign of a gain
COUNTS = {
    "loss, bits": (0.05, -1),
    "updates saved": (0.1, 1),
    "BLiMP, points": (1.0, 1),
    "five tasks, points": (1.0, 1),
    "CoLA, RTE and MRPC, points": (2.0, 1),
}
CLS = ("CoLA", "RTE", "MRPC")
TASKS = (*CLS, "SST-2", "STS-B")


def differences(first, second):
    """Of two runs with one seed, in the order of ``COUNTS``; None where one was not measured.

    The share of updates saved is negative if the second scheme is the one that saves them.
    """
    loss = first["final_loss"] - second["final_loss"]
    ahead, behind = (first, second) if loss <= 0 else (second, first)
    reached = updates_to_reach(ahead["curve"], behind["final_loss"])
    saved = (1 if ahead is first else -1) * (1 - reached / ahead["updates"])
    x, y = first["downstream"], second["downstream"]
    return (
        loss,
        saved,
        *(
            fmean(x[name] - y[name] for name in names) if {*names} <= x.keys() & y.keys() else None
            for names in (["pairs"], TASKS, CLS)
        ),
    )


def verdict(found, least, sign):
    """What the plan calls an interval."""
    if found["margin95"] is None:
        return "one seed"
    low, high = (found["mean"] + side * found["margin95"] for side in (-1, 1))
    if low <= 0 <= high:
        return "cannot be told" if max(-low, high) >= least else "no difference that counts"
    if abs(found["mean"]) < least:
        return "less than counts"
    return "gain" if sign * found["mean"] > 0 else "loss"


def main(path: str) -> None:
    runs = [run for run in read_json(path)["runs"] if run["diverged"] is None]
    by = {(run["scheme"], run["seed"]): run for run in runs}
    rows = []
    for first, second in COMPARISONS:
        seeds = [seed for scheme, seed in by if scheme == first and (second, seed) in by]
        if not seeds:
            continue
        row = {"comparison": f"`{first}` less `{second}`", "seeds": len(seeds)}
        measured = zip(*(differences(by[first, seed], by[second, seed]) for seed in seeds))
        for values, (name, (least, sign)) in zip(measured, COUNTS.items()):
            row[name] = shown(over_seeds(values), len(seeds), least, sign)
        rows.append(row)
    used = [name for name in ("comparison", "seeds", *COUNTS) if any(row[name] for row in rows)]
    print(table({name: row[name] for name in used} for row in rows))
    scored = [run for run in runs if "pairs" in run["downstream"]]
    if scored:
        draw(scored, os.path.join(os.path.dirname(path), "blimp.png"))


def shown(found, seeds, least, sign):
    """A difference with its interval, and the number of seeds if these are not all."""
    if found is None:
        return ""
    of = "" if found["n"] == seeds else f", {found['n']} of them"
    return f"{seeds_cell(found, '+.2f')}{of}: {verdict(found, least, sign)}"


def draw(runs, path: str) -> None:
    """Draw each phenomenon of BLiMP: a large dot is the mean over the seeds, a small one a seed."""
    schemes = list(dict.fromkeys(run["scheme"] for run in runs))
    names = [name for name in runs[0]["downstream"] if name.startswith("pairs/")]

    def mean(scheme, name):
        return fmean(run["downstream"][name] for run in runs if run["scheme"] == scheme)

    names.sort(key=lambda name: fmean(mean(scheme, name) for scheme in schemes))
    names.append("pairs")
    figure = canvas.new_figure(8, 1.5 + 0.36 * len(names))
    axis = figure.subplots()
    for number, scheme in enumerate(schemes):
        values = [mean(scheme, name) for name in names]
        places = [place + 0.09 * (number - (len(schemes) - 1) / 2) for place in range(len(names))]
        again, place = divmod(number, len(canvas.COLOURS))
        colour, shape = canvas.COLOURS[place - 1], "os^"[again]
        axis.plot(values, places, shape, color=colour, markersize=6, label=scheme)
        for run in (run for run in runs if run["scheme"] == scheme):
            values = [run["downstream"][name] for name in names]
            axis.plot(values, places, shape, color=colour, markersize=2.5, alpha=0.6)
    axis.axvline(50, color="#777777", linewidth=0.8, zorder=0)
    labels = [name.removeprefix("pairs/").replace("_", " ") for name in names[:-1]]
    axis.set_yticks(range(len(names)), [*labels, "all 67 files"])
    axis.set_xlabel("BLiMP pairs of which the grammatical sentence is the likelier one, %")
    axis.grid(alpha=0.25)
    axis.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncol=3, frameon=False)
    canvas.save_png(figure, path, dpi=130)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1])
    except (OSError, ValueError) as error:
        sys.exit(f"differences.py: {error}")
