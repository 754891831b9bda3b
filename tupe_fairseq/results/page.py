"""Pages of results: one notation of a measured value, tables in Markdown, and results.json."""

import html
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tupe_fairseq.files import atomic_write, write_json

# characters of a text in a cell
_LONGEST = 300
#: what made a run, as its result.json says
MADE = ("machine", "versions", "fp16", "threads")


def in_cell(value: Any) -> str:
    """A value, such as a user's text or label, escaped for Markdown; long text is truncated."""
    text = ", ".join(value) if isinstance(value, list) else str(value)
    text = " ".join(text.split())
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + "\u2026"
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", html.escape(text, quote=False))


def cell(
    value: float | None,
    interval: Sequence[float] | None = None,
    form: str = ".1f",
    times: int = 1,
    missing: str = "-",
) -> str:
    """A measured value, with its 95% interval if it has one: ``81.2 (77.0 to 85.1)``."""
    if value is None:
        return missing
    shown = [format(times * x, form) for x in (value, *(interval or ()))]
    shown = [re.sub("^-(?=[0.]+$)", "", x) for x in shown]  # not -0.0
    return "{} ({} to {})".format(*shown) if interval else shown[0]


def percent(
    value: float | None, interval: Sequence[float] | None = None, missing: str = "undefined"
) -> str:
    """The cell of a fraction, times 100."""
    return cell(value, interval, times=100, missing=missing)


def seeds_cell(found: Mapping[str, Any] | None, form: str = ".1f", times: int = 1) -> str:
    """The cell of :func:`over_seeds`: the mean with its interval; of two seeds both values."""
    if found is None:
        return "-"
    mean, margin = found["mean"], found["margin95"]
    if found["n"] < 3:
        values = (cell(found[end], None, form, times) for end in ("min", "max"))
        return ", ".join(dict.fromkeys(values))
    return cell(mean, [mean - margin, mean + margin] if margin else None, form, times)


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """A table of rows with named cells; a row may lack some. Numbers stand on the right."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, ["---", *["---:"] * (len(names) - 1)]]
    lines += [[str(row.get(name, "")) for name in names] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n" if rows else ""


def class_table(classes: list[dict[str, Any]]) -> str:
    """A row for each of :func:`class_scores`."""
    names = {"precision": "precision", "recall": "recall", "f1": "F1"}
    return table(
        {"class": in_cell(one["label"])}
        | {label: percent(one[name], missing="-") for name, label in names.items()}
        | {"number": one["support"]}
        for one in classes
    )


def unequal(conditions: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """What is not equal in all runs that have it: the condition, a value, and the runs with it.

    ``conditions`` are those of each run, by its name.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for run, own in conditions.items():
        for name, value in own.items():
            found.setdefault(name, {}).setdefault(as_text(value), []).append(run)
    return [
        [name, value, "; ".join(runs)]
        for name, values in found.items()
        for value, runs in values.items()
        if len(values) > 1
    ]


def training(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a run was made with, for :func:`unequal`."""
    return {f"training: {name}": result.get(name, "not recorded") for name in MADE}


def unequal_table(rows: Sequence[Sequence[str]]) -> list[str]:
    names = ("", "value", "runs")
    cells = [dict(zip(names, map(in_cell, row))) for row in rows]
    return ["## Not equal in all runs", table(cells)] if rows else []


def as_text(value: Any) -> str:
    """A value of a setting, without the brackets of dicts and lists."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {x}" for name, x in value.items())
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def page(parts: Iterable[str]) -> str:
    """Titles, paragraphs and tables, joined by blank lines; empty ones are left out."""
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def write_page(folder: str, content: dict[str, Any], text: str) -> None:
    """Write results.json and results.md."""
    write_json(os.path.join(folder, "results.json"), content)
    with atomic_write(os.path.join(folder, "results.md")) as file:
        file.write(text)
