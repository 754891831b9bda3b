"""Writes the table of README.md, and loss_by_updates.png, from entries/*.json.

python examples/arena/table.py
"""

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from tupe_fairseq.compare.figures import draw_loss
from tupe_fairseq.compare.results import updates_to_reach
from tupe_fairseq.files import atomic_write, read_json
from tupe_fairseq.results.intervals import over_seeds
from tupe_fairseq.results.page import page, seeds_cell, table, training, unequal, unequal_table

HERE = Path(__file__).parent
REFERENCE, COUNTS = "rope", 0.05  # bits
MADE = re.compile(r"(<!-- made by table\.py -->\n).*?(<!-- end -->)", re.S)
Entry = dict[str, Any]


def by_loss(entries: Iterable[Entry]) -> list[Entry]:
    """By their mean loss; those with a diverged run come last."""
    for entry in entries:
        own = [run for run in entry["runs"] if run["lr"] == entry["rate"]]
        entry["own"] = {run["seed"]: run for run in own}
        entry["diverged"] = sum(run["diverged"] is not None for run in own)
        losses = [run["final_loss"] for run in own]
        entry["loss"] = None if entry["diverged"] else over_seeds(losses)
    return sorted(entries, key=lambda x: x["loss"]["mean"] if x["loss"] else float("inf"))


def reference_of(entries: list[Entry]) -> Entry:
    """Refuses entries that were trained otherwise."""
    found = [entry for entry in entries if entry["scheme"] == REFERENCE]
    if not found:
        sys.exit(
            f"table.py: there is no entry of {REFERENCE}; run examples/arena/run.sh {REFERENCE}"
        )
    expected = trained(found[0])
    for entry in entries:
        for name, value in trained(entry).items():
            if value != expected.get(name):
                text = f"table.py: {entry['scheme']}: {name} is not that of {REFERENCE}"
                sys.exit(f"{text}: {value}, {expected.get(name)}")
    return found[0]


def trained(entry: Entry) -> dict[str, Any]:
    """What all entries share."""
    runs = entry["runs"]
    arch, rates = ({run[name] for run in runs} for name in ("arch", "lr"))
    shared = {"arch": sorted(arch), "lr": sorted(rates), "seeds": sorted(entry["own"])}
    return {**entry["settings"], **shared}


COLUMNS = (
    *("scheme", "loss, bits", "less `rope`", "updates to its loss", "seconds", "at 256", "rate"),
    *("parameters", "step", "made"),
)


def row_of(entry: Entry, reference: Entry) -> dict[str, str]:
    own, rates = entry["own"], sorted({run["lr"] for run in entry["runs"]})
    row = dict.fromkeys(COLUMNS, "")
    row["scheme"] = "`{}`".format(" ".join((entry["scheme"], *entry["flags"])))
    row["rate"] = f"{entry['rate']:g}" + " (edge)" * (entry["rate"] in (rates[0], rates[-1]))
    row["made"] = f"{entry['date']}, {entry['commit']}"
    if not entry["loss"]:
        row["loss, bits"] = f"diverged ({entry['diverged']} of {len(own)})"
        return row
    row["loss, bits"] = seeds_cell(entry["loss"], ".3f")
    losses = [run["losses"] for run in own.values()]
    if "256" in losses[0]:
        row["at 256"] = seeds_cell(over_seeds([x["256"] - x["128"] for x in losses]), "+.3f")
    row["parameters"] = f"{own[1]['parameters'] - reference['own'][1]['parameters']:+,}"
    step = entry["step_seconds"]["own"] / entry["step_seconds"][REFERENCE]
    row["step"] = f"{step:.2f}"
    pairs = [(run, reference["own"][seed]) for seed, run in own.items()]
    if entry is not reference:
        less = over_seeds([run["final_loss"] - other["final_loss"] for run, other in pairs])
        counts = abs(less["mean"]) >= COUNTS and abs(less["mean"]) > less["margin95"]
        bold = "**" * counts
        row["less `rope`"] = f"{bold}{seeds_cell(less, '+.3f')}{bold}"
    reached = [updates_to_reach(run["curve"], other["final_loss"]) for run, other in pairs]
    if fmean(x["128"] for x in losses) > entry["baselines"]["bigrams"]:
        row["updates to its loss"] = "plateau"
    elif None in reached:
        row["updates to its loss"] = "not reached"
    else:
        row["updates to its loss"] = f"{fmean(reached):,.0f}"
        row["seconds"] = f"{fmean(reached) * step * reference['step_seconds']['own']:,.0f}"
    return row


def made_of(entries: list[Entry]) -> str:
    if not entries:
        return f"There are no rows yet. `examples/arena/run.sh {REFERENCE}` makes the first.\n"
    reference = reference_of(entries)
    conditions = {
        f"{entry['scheme']}, seed {seed}": training(run)
        for entry in entries
        for seed, run in entry["own"].items()
    }
    return page(
        [
            table(row_of(entry, reference) for entry in entries),
            "![loss by updates, in panels from the best to the last](loss_by_updates.png)",
            *unequal_table(unequal(conditions)),
        ]
    )


def draw(entries: list[Entry]) -> None:
    """Loss by updates, in panels from the best to the last, with the reference in each."""
    reference = reference_of(entries)
    summary, runs = [], []
    for entry in (reference, *(entry for entry in entries if entry is not reference)):
        own = list(entry["own"].values())
        diverged = [run["seed"] for run in own if run["diverged"] is not None]
        row = {"arch": own[0]["arch"], "scheme": entry["scheme"], "seeds": [*entry["own"]]}
        summary.append({**row, "diverged": diverged})
        runs += own
    draw_loss({"summary": summary, "runs": runs, "unigram": None}, str(HERE))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("entry", nargs="?", help="is added to entries/")
    parser.add_argument("--check", action="store_true", help="only fail if the table is old")
    args = parser.parse_args()
    page, folder = HERE / "README.md", HERE / "entries"
    entries = {path: read_json(str(path)) for path in sorted(folder.glob("*.json"))}
    if args.entry:
        added = folder / f"{Path(args.entry).parent.name}.json"
        entries[added] = read_json(args.entry)
    rows, before = by_loss(entries.values()), page.read_text("utf-8")
    after = MADE.sub(lambda match: match[1] + made_of(rows) + match[2], before)
    if args.check:
        sys.exit(
            0 if after == before else "table.py: README.md is not what entries/ say; run table.py"
        )
    if args.entry:
        folder.mkdir(exist_ok=True)
        with atomic_write(str(added)) as file:
            file.write(Path(args.entry).read_text("utf-8"))
        for name, value in row_of(entries[added], reference_of(rows)).items():
            print(f"{name:20} {value}")
    with atomic_write(str(page)) as file:
        file.write(after)
    if rows:
        draw(rows)


if __name__ == "__main__":
    main()
