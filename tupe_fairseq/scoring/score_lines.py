"""The scores of rows as lines of text: tab-separated values, or JSON."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from tupe_fairseq.scoring.pair_rows import PairRow

FORMATS = (".tsv", ".jsonl")


def fields(row: Any, tokens: Sequence[list[int]], scores: Sequence[float]) -> dict[str, Any]:
    """The columns of a row.

    Args:
        row (SentenceRow or PairRow): what was scored.
        tokens (sequence of list of int): of each of its sentences.
        scores (sequence of float): of each of its sentences.
    """
    pieces = [len(one) - 2 for one in tokens]
    rounded = [round(score, 6) for score in scores]
    if not isinstance(row, PairRow):
        return {"score": rounded[0], "pieces": pieces[0], "sentence": row.sentence}
    return {
        "file": row.file,
        "row": row.number,
        "phenomenon": row.phenomenon,
        "right": scores[0] > scores[1],
        "score_good": rounded[0],
        "score_bad": rounded[1],
        "pieces_good": pieces[0],
        "pieces_bad": pieces[1],
        "good": row.good,
        "bad": row.bad,
    }


def line_maker(suffix: str) -> Callable[[dict[str, Any]], str]:
    """What makes the lines of a row's columns; the first of a .tsv has their names, too.

    Args:
        suffix (str): one of :data:`FORMATS`.
    """
    if suffix == ".jsonl":
        return lambda found: json.dumps(found, ensure_ascii=False) + "\n"
    is_first = True

    def tab_separated(found: dict[str, Any]) -> str:
        nonlocal is_first
        lines = ["\t".join(found)] if is_first else []
        is_first = False
        lines.append("\t".join(_in_a_cell(value) for value in found.values()))
        return "".join(f"{line}\n" for line in lines)

    return tab_separated


def _in_a_cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6f}"
    # whatever ends a cell or a line
    return " ".join(value.split()) if isinstance(value, str) else str(value)
