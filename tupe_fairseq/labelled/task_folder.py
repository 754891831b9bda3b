"""A task's data folder: tokens and labels as fairseq loads them, and report.json."""

import contextlib
import functools
import itertools
import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tupe_fairseq.data.dictionary import DICTIONARY, PAD, REPORT, UNK
from tupe_fairseq.data.indexed import IndexedWriter, read_sentences
from tupe_fairseq.data.parallel import parallel_map
from tupe_fairseq.data.text_files import read_lines
from tupe_fairseq.data.tokenizer import Tokenizer, unknown_warnings
from tupe_fairseq.files import file_sha256, list_files, output_folder, read_json, write_json
from tupe_fairseq.kinds.base import Labels, all_of
from tupe_fairseq.labelled.task import Task, TaskRows, label_symbol
from tupe_fairseq.provenance import made_by, warn_of_other_version

logger = logging.getLogger(__name__)

# rows for a process at a time: enough to pay for the transfer, few enough to bound memory
_BATCH = 10_000
# labels that are logged with their counts
_MOST_LABELS = 50


def prepare_folder(
    folder: str,
    settings: dict[str, Any],
    read: Callable[[], tuple[Task, dict[str, dict[str, TaskRows]], dict[str, Any]]],
    tokenizer: Tokenizer,
    workers: int,
    overwrite: bool = False,
    names: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Write the folder, unless it is finished; log and return the content of its report.json.

    ``settings`` have all that the rows depend on. ``read`` returns the task, the rows of its splits
    (of the folder itself, under "", or of each fold), and further entries for report.json.
    ``names`` are those of the files in ``settings``, for messages.
    """
    max_positions = tokenizer.max_positions or 512  # rows with more tokens are counted
    vocabulary = [tokenizer.dictionary, *tokenizer.paths]
    settings = {
        **settings,
        "max_positions": max_positions,
        "tokenizer": [tokenizer.record, *map(file_sha256, vocabulary)],
    }
    with output_folder(folder, REPORT, settings, overwrite=overwrite, names=names) as output:
        if output.record is not None:
            logger.info("%s is already finished; skipped", folder)
            warn_of_other_version(logger, folder, output.record)
            _log_report(output.record)
            return output.record
        task, parts, more = read()
        partial = output.partial
        about = {
            "task": task.name,
            "description": task.to_record(),
            "vocabulary": file_sha256(tokenizer.dictionary),
            "max_positions": max_positions,
            "warnings": [],
            **made_by(),
            "settings": settings,
            **more,
        }
        total = task.texts * sum(len(x.texts) for of in parts.values() for x in of.values())
        logger.info("%s: encoding %d texts; large tasks take minutes", task.name, total)
        counts = {}
        for name, splits in parts.items():
            own = os.path.normpath(os.path.join(partial, name))
            counts[name] = {
                split: _write_split(task, rows, own, split, tokenizer, max_positions, workers)
                for split, rows in splits.items()
            }
            _write_dictionaries(task, counts[name]["train"]["labels"], own, tokenizer)
            report = {**about, "splits": counts[name], "files": list_files(own)}
            write_json(os.path.join(own, REPORT), report)
        if "" not in parts:
            of_folds = {f"{x}/{split}": n for x, of in counts.items() for split, n in of.items()}
            report = {**about, "folds": [*parts], "splits": of_folds, "files": list_files(partial)}
            write_json(os.path.join(partial, REPORT), report)
    _log_report(report)
    return report


def _log_report(report: dict[str, Any]) -> None:
    """Log a table of what was read, kept and dropped, and warnings."""
    over = f"over {report['max_positions']}"
    table = [[report["task"], "read", "kept", over, "unknown", "labels; dropped; warnings"]]
    warnings = list(report["warnings"])
    for split, values in report["splits"].items():
        counts = "; ".join(_counts(values[name]) for name in ("labels", "dropped", "warnings"))
        numbers = [str(values[name]) for name in ("rows_read", "rows", "too_long")]
        table.append([split, *numbers, f"{values['unknown_rate']:.2%}", counts])
    unknown, split = max((of["unknown_rate"], split) for split, of in report["splits"].items())
    warnings += unknown_warnings({split: unknown})
    widths = [max(map(len, column)) for column in zip(*table)]
    for first, *numbers, counts in table:
        cells = [cell.rjust(width) for cell, width in zip(numbers, widths[1:])]
        logger.info("%s", "  ".join([first.ljust(widths[0]), *cells, counts]))
    for warning in warnings:
        logger.warning("warning: %s: %s", report["task"], warning)


def _counts(values: dict[str, int]) -> str:
    parts = [f"{name}: {count}" for name, count in values.items()]
    more = [f"and {len(parts) - _MOST_LABELS} more"] if len(parts) > _MOST_LABELS else []
    return ", ".join(parts[:_MOST_LABELS] + more) or "-"


def _write_split(
    task: Task,
    rows: TaskRows,
    folder: str,
    split: str,
    tokenizer: Tokenizer,
    max_positions: int,
    workers: int,
) -> dict[str, Any]:
    """Write the texts, the labels and the row numbers of a split; returns report.json's counts."""
    os.makedirs(os.path.join(folder, "label"), exist_ok=True)
    of_words, unknown, lengths = task.kind.of_words, 0, []  # of the parts of each row
    encode = functools.partial(tokenizer.encode_rows, of_words=of_words)
    batches = (rows.texts[n : n + _BATCH] for n in range(0, len(rows.texts), _BATCH))
    inputs = [os.path.join(folder, f"input{number}", split) for number in range(task.texts)]
    options = {"total": len(rows.texts), "unit": "row", "disable": None, "leave": False}
    with tqdm(desc=split, **options) as bar, contextlib.ExitStack() as stack:
        writers = [stack.enter_context(IndexedWriter(x, len(tokenizer.ids))) for x in inputs]
        for encoded in parallel_map(encode, batches, workers):
            lengths += ([*map(len, row)] for row in encoded)
            unknown += sum(part.count(UNK) for row in encoded for part in row)
            if of_words:
                encoded = [[[*itertools.chain(*row)]] for row in encoded]
            for writer, ids in zip(writers, zip(*encoded)):
                writer.write(ids)
            bar.update(len(encoded))
    if rows.labels or of_words:
        path = os.path.join(folder, "label", split)
        task.kind.write_labels(task, rows.labels, path, lengths)
    Path(folder, f"{split}.index").write_text("\n".join([*rows.index, ""]))
    special = 2 * task.texts  # <s> a </s> </s> b </s>
    counts = Counter(one for label in rows.labels for one in all_of(label))
    if empty := sum(not min(row, default=0) for row in lengths):
        rows.warnings["empty text"] = empty
    return {
        "rows_read": rows.read,
        "rows": len(rows.texts),
        "dropped": dict(rows.dropped),
        "warnings": dict(rows.warnings),
        "labels": {label: counts[label] for label in task.labels if rows.labels},
        "unknown_rate": unknown / max(1, sum(map(sum, lengths))),
        "too_long": sum(sum(row) + special > max_positions for row in lengths),
    }


def _write_dictionaries(
    task: Task, counts: dict[str, int], folder: str, tokenizer: Tokenizer
) -> None:
    """Write the files of the vocabulary, and a dict.txt for each input and for the labels, with
    their ``counts`` in train."""
    tokenizer.copy_to(folder)
    for number in range(task.texts):
        shutil.copy(os.path.join(folder, DICTIONARY), os.path.join(folder, f"input{number}"))
    if task.labels:
        lines = [f"{label_symbol(label)} {count}\n" for label, count in counts.items()]
        Path(folder, "label", DICTIONARY).write_text("".join(lines), encoding="utf-8")


# ---- Reading ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaskData:
    """A data folder."""

    folder: str  # absolute
    task: Task
    vocabulary: str  # sha256 of dict.txt
    rows: dict[str, int]  # of each split
    files: list[str]  # of the splits, relative to the folder

    @classmethod
    def load_folds(cls, folder: str) -> list["TaskData"]:
        """Load each fold, or a folder without folds as the only item."""
        folds = read_json(os.path.join(folder, REPORT)).get("folds", ["."])
        return [cls.load(os.path.normpath(os.path.join(folder, fold))) for fold in folds]

    @classmethod
    def load(cls, folder: str) -> "TaskData":
        """Read report.json; the folder must be complete."""
        report = read_json(os.path.join(folder, REPORT))
        if "folds" in report:
            one = os.path.join(folder, report["folds"][0])
            raise ValueError(f"{folder} has folds; give one, such as {one}, or prepare it without")
        try:
            task = Task.from_record(report["description"], os.path.join(folder, REPORT))
            rows = {split: counts["rows"] for split, counts in report["splits"].items()}
            files = [
                name
                for name in report["files"]
                if name.endswith((".bin", ".idx", ".label"))
                or (task.benchmark and name.startswith("test"))  # the official numbers of rows
            ]
            vocabulary = report["vocabulary"]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"--data {folder} is not of tupe-prepare-glue or tupe-prepare-task: its "
                f"report.json has no {error}"
            ) from error
        data = cls(os.path.abspath(folder), task, vocabulary, rows, files)
        for name in files:
            if not os.path.isfile(os.path.join(folder, name)):
                raise FileNotFoundError(f"{folder}/{name} is missing; prepare the task again")
        if data.sha256(f"input0/{DICTIONARY}") != vocabulary:
            raise ValueError(f"{folder}/input0/{DICTIONARY} has changed; prepare the task again")
        for split in ("train", "valid"):  # with one row correlations are nan, as if a run diverged
            if (number := rows.get(split, 0)) < 2:
                raise ValueError(f"--data {folder} has {number} rows in {split}, below 2")
        return data

    def splits(self, kind: str) -> list[str]:
        """The splits of a kind (valid or test), the main one first."""
        return [split for split in self.task.splits if split in self.rows and kind in split]

    def sha256(self, name: str) -> str:
        return file_sha256(os.path.join(self.folder, name))

    def has_labels(self, split: str) -> bool:
        return self.targets(split) is not None

    def targets(self, split: str) -> Labels | None:
        """The true labels in the order of the rows, None if unknown; scores on the task's scale."""
        path = os.path.join(self.folder, "label", split)
        targets = self.task.kind.read_targets(path, self.task.num_classes)
        if self.task.scale is None or targets is None:
            return targets
        low, high = self.task.scale
        return low + targets * (high - low)

    def texts(self, split: str) -> Iterator[list[list[int]]]:
        """For each row, the tokens of its text or texts; for tagging, the tokens of each word."""
        return read_texts(self.folder, split, self.task.kind.of_words)

    def examples(self, split: str, max_positions: int) -> int:
        """The number of samples for a model of this length: rows, or windows for tagging."""
        if not self.task.kind.of_words:
            return self.rows[split]
        return sum(len(self.task.kind.samples(x, max_positions)) for x in self.texts(split))

    def index(self, split: str) -> list[str]:
        """The number of each row in the file, from 0; the official one of GLUE's test sets."""
        return read_lines(os.path.join(self.folder, f"{split}.index"))


def read_texts(folder: str, split: str, of_words: bool) -> Iterator[list[list[int]]]:
    """For each row of a split, the tokens of its texts or, by label/SPLIT, of its words."""
    names = [x for x in ("input0", "input1") if os.path.isdir(os.path.join(folder, x))]
    paths = [os.path.join(folder, x, split) for x in (*names, *["label"] * of_words)]
    columns = [[row[:-1] for row in read_sentences(path)] for path in paths]
    if len({*map(len, columns)}) > 1:
        raise ValueError(f"{' and '.join(paths)} have other numbers of rows; prepare it again")
    for number, row in enumerate(zip(*columns), 1):
        if of_words:
            tokens, tags = row
            if len(tokens) != len(tags):
                raise ValueError(f"row {number}: tokens and tags do not match; prepare it again")
            row = np.split(tokens, np.flatnonzero(tags != PAD))[1:]
        yield [part.tolist() for part in row]
