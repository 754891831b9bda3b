"""The results of a comparison: results.json and results.md."""

import glob
import os
from collections.abc import Sequence
from typing import Any

from tupe_fairseq.files import read_json
from tupe_fairseq.results.intervals import OVER_SEEDS, over_seeds
from tupe_fairseq.results.page import (
    MADE,
    as_text,
    cell,
    page,
    seeds_cell,
    table,
    training,
    unequal,
    unequal_table,
    write_page,
)
from tupe_fairseq.runs.study import finished

Row = dict[str, Any]
#: the row of a model that knows nothing else, and the share of its loss that is clearly below it
UNIGRAM, _CLEARLY = "token frequencies alone", 0.9
_MEASURES = ("final_loss", "words_per_second", "difference")


def read_runs(folder: str, baseline: str, order: Sequence[str] = ()) -> list[Row]:
    """The result.json of all finished runs: the baseline's, then by ``order``.

    Each is compared with the baseline's run of the same size and seed, if there is one: ``target``
    is its loss, ``difference`` the final loss minus that, and ``fraction`` the share of the updates
    after which that loss is reached (None: never). ``downstream`` and ``measured`` are those of
    :func:`scores`, before which come those that earlier versions measured themselves.
    """
    runs = []
    for path, run in finished(folder, "*", "*").items():
        for name, found in zip(("downstream", "measured"), scores(path)):
            run[name] = {**run.get(name, {}), **found}
        runs.append(run)
    targets = {(r["arch"], r["seed"]): r["final_loss"] for r in runs if r["scheme"] == baseline}
    for run in runs:
        loss, target = run["final_loss"], targets.get((run["arch"], run["seed"]))
        run["target"], both = target, None not in (loss, target)
        updates = updates_to_reach(run["curve"], target) if both else None
        run["difference"] = loss - target if both else None
        run["fraction"] = None if updates is None else updates / run["updates"]
    known = [baseline, *order, *sorted({run["scheme"] for run in runs})]
    return sorted(runs, key=lambda run: (run["arch"], known.index(run["scheme"]), run["seed"]))


def scores(run: str) -> tuple[dict[str, float], dict[str, dict[str, Any]]]:
    """The scores in a run's folder, in %, and what each measurement depends on.

    They are from pairs/results.json of tupe-score, and TASK/results.json of tupe-finetune.
    """
    found: dict[str, float] = {}
    measured: dict[str, dict[str, Any]] = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(run), "*", "results.json"))):
        name, content = os.path.basename(os.path.dirname(path)), read_json(path)
        if name == "pairs":
            shares = {name: content["pairs"]["all"]}
            shares |= {f"{name}/{one}": x for one, x in content["pairs"]["phenomena"].items()}
            found |= {one: 100 * share["accuracy"] for one, share in shares.items()}
            files = content["pairs"]["files"].items()
            measured[name] = {x: content.get(x, "not recorded") for x in ("machine", "versions")}
            measured[name]["pairs"] = {file: share["pairs"] for file, share in files}
        elif content.get("score") is not None:
            found[name] = 100 * content["score"]
            measured[name] = {x: v for x, v in content["settings"].items() if x != "checkpoint"}
            runs = content.get("runs") or content["folds"]
            for key in ("run", "machine", "versions"):
                values = (as_text(one.get(key, "not recorded")) for one in runs)
                measured[name][key] = ", ".join(dict.fromkeys(values))
    return found, measured


def finished_schemes(folder: str) -> list[str]:
    """The labels of the schemes that have a finished run."""
    return list(dict.fromkeys(run["scheme"] for run in finished(folder, "*", "*").values()))


def updates_to_reach(curve: Sequence[dict[str, float]], target: float) -> float | None:
    """The updates after which the loss first reaches the target, linear between validations.

    If the first validation has reached it, those of that validation. None if it is never reached.
    """
    before = None
    for point in curve:
        if point["loss"] <= target:
            if before is None:
                return float(point["updates"])
            share = (before["loss"] - target) / (before["loss"] - point["loss"])
            return before["updates"] + share * (point["updates"] - before["updates"])
        before = point
    return None


def summarize(runs: Sequence[Row]) -> list[Row]:
    """The :func:`over_seeds` of the measures over the seeds, a row for each size and scheme."""
    table = []
    for arch, scheme in dict.fromkeys((run["arch"], run["scheme"]) for run in runs):
        own = [run for run in runs if (run["arch"], run["scheme"]) == (arch, scheme)]
        # the speed of a diverged run says nothing about a scheme
        finite = [run for run in own if run["diverged"] is None]
        names = dict.fromkeys(name for run in finite for name in run["downstream"])
        compared = [run for run in own if run["target"] is not None]
        fractions = [run["fraction"] for run in compared]
        table.append(
            {
                "arch": arch,
                "scheme": scheme,
                "seeds": [run["seed"] for run in own],
                "diverged": [run["seed"] for run in own if run["diverged"] is not None],
                **{name: own[0][name] for name in ("updates", "parameters")},
                "parallel": max(run["parallel"] for run in own),
                **{name: over_seeds([run[name] for run in finite]) for name in _MEASURES},
                "to_baseline": {"of": len(compared), "fraction": over_seeds(fractions)},
                "downstream": {
                    n: over_seeds([run["downstream"].get(n) for run in finite]) for n in names
                },
            }
        )
    return table


def write_results(
    folder: str,
    settings: Row,
    baseline: str,
    order: Sequence[str] = (),
    tuning: Sequence[Row] = (),
    unigram: float | None = None,
) -> Row:
    """Write results.json and results.md of all finished runs; returns the content of the first.

    ``unigram`` is the loss of token frequencies alone.
    """
    runs = read_runs(folder, baseline, order)
    conditions = {}
    for run in runs:
        measured = run["measured"].items()
        conditions[f"{run['arch']}, {run['scheme']}, seed {run['seed']}"] = training(run) | {
            f"{group}: {name}": value for group, own in measured for name, value in own.items()
        }
    results = {
        "settings": settings,
        "machines": list(dict.fromkeys(run["machine"] for run in runs)),
        "unequal": unequal(conditions),
        "baseline": baseline,
        "unigram": unigram,
        "tuning": [{**row, "losses": list(row["losses"].items())} for row in tuning],
        "summary": summarize(runs),
        "runs": runs,
    }
    write_page(folder, results, page_of(results))
    return results


# ---- results.md


def page_of(results: Row) -> str:
    """The text of results.md, from the content of results.json."""
    settings, baseline = results["settings"], results["baseline"]
    # not "updates of": with --update-freq, an update has several batches
    size = f"batches of {settings['batch_size']} samples of {settings['tokens_per_sample']} tokens"
    parts = ["# Position encodings compared", f"{settings['updates']:,} updates, {size}."]
    for arch in dict.fromkeys(row["arch"] for row in results["summary"]):
        rows = [row for row in results["summary"] if row["arch"] == arch]
        parts += [f"## `{arch}`", *_schemes(rows, baseline, results.get("unigram"))]
        parts.append(_phenomena(rows))
        parts += _tuning([row for row in results["tuning"] if row["arch"] == arch])
    return page([*parts, *unequal_table(results.get("unequal", [])), *_settings(results)])


def _fraction(row: Row) -> str:
    to_baseline = row["to_baseline"]
    reached = to_baseline["fraction"]
    if not to_baseline["of"]:
        return "-"
    if reached is None:
        return "not reached"
    if reached["n"] == to_baseline["of"]:
        return seeds_cell(reached, ".2f")
    # the seeds that reach it are not a fair sample, so there is no interval
    return f"{reached['mean']:.2f} ({reached['n']} of {to_baseline['of']} seeds)"


def _schemes(rows: Sequence[Row], baseline: str, unigram: float | None) -> list[str]:
    measured = [name for name in _downstream(rows) if not name.startswith("pairs/")]
    cells: list[dict[str, Any]] = []
    for row in rows:
        seeds = str(len(row["seeds"]))
        seeds += f" ({len(row['diverged'])} diverged)" if row["diverged"] else ""
        compared = seeds_cell(row["difference"], "+.3f"), _fraction(row)
        difference, fraction = ("", "") if row["scheme"] == baseline else compared
        row_cells = {
            "scheme": row["scheme"],
            "seeds": seeds,
            "final loss, bits": seeds_cell(row["final_loss"], ".3f"),
            f"difference to {baseline}": difference,
            "fraction of updates": fraction,
        }
        row_cells |= {name: seeds_cell(row["downstream"].get(name), ".1f") for name in measured}
        row_cells["parameters"] = cell(row["parameters"], form=",")
        row_cells["words per second"] = seeds_cell(row["words_per_second"], ",.0f")
        cells.append(row_cells)
    if unigram is not None:
        cells.append({"scheme": UNIGRAM, "final loss, bits": f"{unigram:.3f}"})
    notes = [
        "Losses are in bits per masked token on the validation set. Differences are taken seed by "
        "seed. The fraction is the share of the updates after which the final loss of "
        f"`{baseline}` is reached (linear between validations). The speed is that of training, "
        "without start-up, validation and saving."
    ]
    if measured:
        notes.append(
            "Pairs: the share whose acceptable sentence is more likely, in %. Tasks: the score of "
            "`tupe-finetune`, in %."
        )
    lowest = min((row["final_loss"]["mean"] for row in rows if row["final_loss"]), default=0)
    if unigram is not None and lowest > _CLEARLY * unigram:
        notes.append(
            f"**No scheme is clearly below {UNIGRAM} (by a tenth): these models have learned "
            "little else, so their differences say nothing about longer training.**"
        )
    counts = {row["final_loss"]["n"] for row in rows if row["final_loss"]}
    if max(counts, default=0) > 2:
        notes.insert(1, OVER_SEEDS)
    if 2 in counts:
        notes.append("Two seeds: both values; an interval would be 25 standard errors wide.")
    if 1 in counts:
        notes.append("**One seed has no interval: a difference may be chance.**")
    if any(row["diverged"] for row in rows):
        notes.append("Diverged runs are left out of means; they do not reach a loss.")
    parallel = max(row["parallel"] for row in rows)
    if parallel > 1:
        notes.append(f"**Up to {parallel} runs shared the machine: alone, a run is faster.**")
    return [table(cells), " ".join(notes)]


def _downstream(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row["downstream"]))


def _phenomena(rows: Sequence[Row]) -> str:
    return table(
        {"minimal pairs": name.removeprefix("pairs/")}
        | {row["scheme"]: seeds_cell(row["downstream"].get(name), ".1f") for row in rows}
        for name in _downstream(rows)
        if name.startswith("pairs/")
    )


def _tuning(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    rates = dict.fromkeys(rate for row in rows for rate, _ in row["losses"])
    cells = []
    for row in rows:
        losses = dict(row["losses"])
        shown = {f"{r:g}": cell(losses.get(r), form=".3f", missing="diverged") for r in rates}
        best = "none" if row["lr"] is None else f"{row['lr']:g}" + " (edge)" * row["at_edge"]
        cells.append({"scheme": row["scheme"], **shown, "best": best})
    note = f"Final loss of runs of {rows[0]['updates']:,} updates at each learning rate."
    if any(row["at_edge"] for row in rows):
        note += " **Edge: a rate beyond the lowest or the highest may be better.**"
    return [table(cells), note]


def _settings(results: Row) -> list[str]:
    shown = dict(results["settings"])
    for name in MADE:  # in earlier versions some were settings
        usual = shown.get(name, "not recorded")
        made = (as_text(run.get(name, usual)) for run in results["runs"])
        shown[name] = "; ".join(dict.fromkeys(made))
    del shown["data"]
    if shown["tune_lrs"]:
        del shown["lr"]
    return [
        "## Settings",
        "Equal in all runs with the same seed: data, order of batches, masks. Weights and dropout "
        "are drawn from the same seed, but schemes with other parameters draw other numbers. The "
        "SHA-256 of the data are in results.json.",
        "\n".join(
            f"- {n}: {x}" for n, x in zip(shown, map(as_text, shown.values())) if x not in ("", "0")
        ),
    ]
