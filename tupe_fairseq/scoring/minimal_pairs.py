"""Minimal pairs such as BLiMP's, and how often a model prefers the acceptable sentence."""

import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tupe_fairseq.data.rows import read_columns, read_rows
from tupe_fairseq.files import list_files
from tupe_fairseq.labelled.columns import find_column
from tupe_fairseq.results.intervals import wilson
from tupe_fairseq.results.page import page, percent, table

#: BLiMP's columns; other files may lack the last, the phenomenon
COLUMNS = ("sentence_good", "sentence_bad", "linguistics_term")
#: the columns that describe a pair in the output
PAIR_COLUMNS = ("file", "row", "phenomenon")


def pair_files(paths: Iterable[str]) -> dict[str, str]:
    """The .jsonl files of paths and folders (also .gz, .xz, .bz2), by short names."""
    files: list[str] = []
    for path in paths:
        if not os.path.exists(path):
            raise FileNotFoundError(f"--pairs {path} does not exist")
        listed = [path]
        if os.path.isdir(path):
            listed = [os.path.join(path, name) for name in list_files(path) if _is_pairs(name)]
        if not listed or not all(map(_is_pairs, listed)):
            raise ValueError(
                f"--pairs {path} is not a .jsonl file (also .gz, .xz, .bz2) or a folder of them"
            )
        files += listed
    names: dict[str, str] = {}
    for path in dict.fromkeys(files):
        name = os.path.basename(path).partition(".jsonl")[0]
        names[path.partition(".jsonl")[0] if name in names else name] = path
    return names


def _is_pairs(path: str) -> bool:
    name = os.path.basename(path)
    return name.endswith((".jsonl", ".jsonl.gz", ".jsonl.xz", ".jsonl.bz2")) and name[0] != "."


def read_pairs(
    files: dict[str, str], per_file: int | None = None
) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """For each pair: its place (for messages), the two sentences, its file, row and phenomenon.

    ``per_file``: how many rows of each file are read, by default all.
    """
    for file, path in files.items():
        names = read_columns(path)
        columns = [find_column(path, names, name, "--pairs") for name in COLUMNS[:2]]
        columns += [name for name in COLUMNS[2:] if name in names]
        rows = itertools.islice(read_rows(path, columns), per_file)
        for number, (line, row) in enumerate(rows, 1):
            place = f"{path}, line {line}"
            values = [str(row[name]).strip() for name in columns]
            if "" in values[:2]:
                raise ValueError(f"{place} has no text in {columns[values.index('')]!r}")
            tested = values[2] if values[2:] else ""
            yield place, values[:2], dict(zip(PAIR_COLUMNS, (file, number, tested)))


def pair_accuracies(pairs: Iterable[tuple[str, str, float, float]]) -> dict[str, Any]:
    """The share of pairs whose acceptable sentence has the higher score; a tie is wrong.

    The interval is that of :func:`wilson`. A pair is its file, its phenomenon ("" if it has none),
    and the scores of both sentences.
    """
    groups: dict[str, dict[str, Counter]] = {"all": {}, "phenomena": {}, "files": {}}
    for file, phenomenon, good, bad in pairs:
        for group, name in (("all", "all"), ("files", file), ("phenomena", phenomenon)):
            if name:
                counts = groups[group].setdefault(name, Counter())
                counts.update(pairs=1, right=good > bad, ties=good == bad)
    shares = {
        group: {name: _share(counts) for name, counts in sorted(of_group.items())}
        for group, of_group in groups.items()
    }
    return {**shares, **shares["all"]}


def _share(counts: Counter) -> dict[str, Any]:
    share = counts["right"] / counts["pairs"]
    numbers = {name: int(counts[name]) for name in ("pairs", "right", "ties")}
    return {**numbers, "accuracy": share, "interval": wilson(share, counts["pairs"])}


def accuracy_page(checkpoint: str, result: dict[str, Any]) -> str:
    """The result of :func:`pair_accuracies` in Markdown."""
    parts = [f"`{checkpoint}`"]
    for group, title in (("all", ""), ("phenomena", "phenomenon"), ("files", "file")):
        shares = {"all pairs": result["all"]} if group == "all" else result[group]
        parts.append(
            table(
                {title: name, "right, %": percent(share["accuracy"], share["interval"])}
                | {key: f"{share[key]:,}" for key in ("pairs", "ties")}
                for name, share in shares.items()
            )
        )
    return page([*parts, "In brackets: Wilson's 95% intervals over the pairs."])
