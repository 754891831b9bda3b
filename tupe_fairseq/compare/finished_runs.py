"""The results of finished runs, as they are on disk."""

import glob
import os
from collections.abc import Iterable
from typing import Any

from tupe_fairseq.compare.comparison import Comparison, ComparisonRun, validations
from tupe_fairseq.compare.measured_readouts import READOUTS
from tupe_fairseq.compare.parse_schemes import parse_scheme
from tupe_fairseq.files.record import read_record

_RESULT = {
    "arch": str,
    "scheme": str,
    "seed": int,
    "lr": (float, None),
    "updates": (int, None),
    "validate_every": (int, None),
    "diverged": (str, None),
    "final_loss": (float, None),
    "best_loss": (float, None),
    "best_updates": (int, None),
    "seconds": (float, None),
    "words_per_second": (float, None),
    "peak_memory_mib": (float, None),
    "side_by_side": int,
    "machine": str,
    "parameters": (int, None),
    "position_parameters": int,
    "curve": [{"updates": int, "loss": float, "seconds": float}],
}


def finished(comparison: Comparison) -> list[dict[str, Any]]:
    """The results of all finished runs of the folder, from any call with these settings.

    Raises:
        ValueError: if a result.json is damaged, or of another run; the message names it.
    """
    return [_read(comparison, path) for path in _paths(comparison)]


def finished_schemes(comparison: Comparison) -> list[str]:
    """The labels of their schemes, with any settings.

    Raises:
        ValueError: if a result.json has none.
    """
    return [_record(path, {"scheme": str})["scheme"] for path in _paths(comparison)]


def _paths(comparison: Comparison) -> list[str]:
    pattern = os.path.join(glob.escape(comparison.folder), "*", "*", "result.json")
    return sorted(glob.glob(pattern))


def _read(comparison: Comparison, path: str) -> dict[str, Any]:
    result = {**dict.fromkeys(_RESULT), **_record(path, _RESULT)}
    try:
        scheme = parse_scheme(result["scheme"], "scheme")
        run = ComparisonRun(result["arch"], scheme, result["seed"])
        if comparison.path(run, "result.json") != path:
            raise ValueError(f"{path} is the result of {run.label}, which is not of this folder")
        # of earlier versions, whose runs have the updates of their comparison, too
        result["updates"] = result["updates"] or comparison.updates
        result["validate_every"] = result["validate_every"] or comparison.validate_every
        planned = validations(result["updates"], result["validate_every"], result["updates"])
        made = [point["updates"] for point in result["curve"]]
        losses = [point["loss"] for point in result["curve"]]
        if result["diverged"] is None and (
            made != planned
            or (result["final_loss"], result["best_loss"]) != (losses[-1], min(losses))
            or result["seconds"] is None
        ):
            raise ValueError(f"{path} is damaged: its curve is not that of a finished run")
    except ValueError as error:
        raise ValueError(_with_remedy(error, path)) from error
    read_out = os.path.join(os.path.dirname(path), "readouts.json")
    if os.path.exists(read_out):
        result["readouts"] = _record(read_out, READOUTS)
    return result


def _record(path: str, shape: Any) -> dict[str, Any]:
    try:
        return read_record(path, shape)
    except ValueError as error:
        raise ValueError(_with_remedy(error, path)) from error


def _with_remedy(error: ValueError, path: str) -> str:
    return f"{error}; delete {path}, and the run is made again"


def first_seeds(results: Iterable[dict[str, Any]]) -> dict[tuple[str, str], int]:
    """The seed of each size and scheme that has one of these results; the lowest, if several."""
    seeds: dict[tuple[str, str], int] = {}
    for result in sorted(results, key=lambda result: result["seed"]):
        seeds.setdefault((result["arch"], result["scheme"]), result["seed"])
    return seeds
