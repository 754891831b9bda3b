"""What commands leave, without what may differ between two runs: times, and logs."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import torch

# of a measurement, not of a result
_MEASURED = re.compile(r"seconds|words_per_second|memory|machine|time|wall|side_by_side")
_TEMPORARY = (".tmp", ".partial", ".parts")


def of_files(out: Path) -> dict[str, object]:
    """The bytes of every file."""
    return {name: _sha256(path.read_bytes()) for name, path in _files(out).items()}


def of_training(out: Path, log: str) -> dict[str, object]:
    """The losses of every update, however often it was made, and everything in the checkpoints."""
    found = {name: _of_checkpoint(path) for name, path in _files(out).items()}
    for kind, key in (("train_inner", "loss"), ("valid", "valid_loss")):
        for record in records(log, kind):
            updates = record.get("num_updates") or record.get("valid_num_updates")
            found.setdefault(f"{key} at {updates}", set()).add(record[key])
    return found


def of_finetuning(out: Path) -> dict[str, object]:
    """Predictions, tables, records and weights; of pictures and logs that they are there."""
    return {name: _content(path, out) for name, path in _files(out).items()}


def of_comparison(out: Path) -> dict[str, object]:
    """As :func:`of_finetuning`; results.md is of results.json, in which times do not count."""
    found = of_finetuning(out)
    return {name: "" if name.endswith("results.md") else value for name, value in found.items()}


def temporary(out: Path) -> list[str]:
    """The files that a running command has begun to write and that are not complete."""
    found = []
    for folder, _, names in os.walk(out):  # which passes over what is gone meanwhile
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), out)
            if any(part.endswith(_TEMPORARY) for part in path.split(os.sep)):
                found.append(path)
    return found


def _files(out: Path) -> dict[str, Path]:
    return {str(path.relative_to(out)): path for path in sorted(out.rglob("*")) if path.is_file()}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _content(path: Path, out: Path) -> object:
    if path.suffix == ".pt":
        return _of_checkpoint(path)
    if path.suffix in (".png", ".log"):
        return "there"
    if path.suffix == ".json":
        return json.dumps(_unmeasured(json.loads(path.read_text())), sort_keys=True)
    if path.suffix == ".jsonl":
        lines = [_unmeasured(json.loads(line)) for line in path.read_text().splitlines()]
        return json.dumps(lines, sort_keys=True)
    return _sha256(path.read_bytes().replace(str(out).encode(), b"OUT"))


def _unmeasured(value):
    if isinstance(value, dict):
        kept = {name: one for name, one in value.items() if not _MEASURED.search(str(name))}
        return {name: _unmeasured(one) for name, one in kept.items()}
    return list(map(_unmeasured, value)) if isinstance(value, (list, tuple)) else value


def _of_checkpoint(path: Path) -> str:
    if path.suffix != ".pt":
        return "there"
    # weights_only: false, as a command of ours has written it a moment ago
    state = torch.load(path, map_location="cpu", weights_only=False)
    state.pop("cfg", None)  # has the path of the folder
    state.get("extra_state", {}).pop("metrics", None)  # has rates per second
    state["optimizer_history"] = state["optimizer_history"][-1:]  # the others are of each start
    # the best loss so far, which fairseq forgets at each start; no schedule of ours asks for it
    state["optimizer_history"][0].get("lr_scheduler_state", {}).pop("best", None)
    digest = hashlib.sha256()
    _digest(digest, _unmeasured(state))
    return digest.hexdigest()


def _digest(digest, value) -> None:
    if isinstance(value, dict):
        for name in sorted(value, key=str):
            digest.update(repr(name).encode())
            _digest(digest, value[name])
    elif isinstance(value, list):
        for one in value:
            _digest(digest, one)
    elif isinstance(value, torch.Tensor):
        digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().numpy().tobytes())
    else:
        digest.update(repr(value).encode())


def records(log: str, kind: str) -> Iterator[dict[str, str]]:
    """What fairseq's JSON log says of a kind, train_inner, train or valid; Hydra's log, too."""
    of_kind = re.compile(rf"(?:\| {kind} \| |\[{kind}\]\[INFO\] - )(\{{.*)")
    for line in log.splitlines():
        found = of_kind.search(line)
        try:
            record = json.loads(found.group(1)) if found else None
        except ValueError:  # killed while it was printed
            record = None
        if record is not None:
            yield record
