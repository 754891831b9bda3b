"""Writes a task's data folder: tokens and labels as fairseq loads them, and report.json."""

import itertools
import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tupe_fairseq.data.dictionary import DICTIONARY, PAD, SPECIAL_TOKENS, UNK
from tupe_fairseq.data.indexed import IndexedWriter
from tupe_fairseq.data.task import REPORT, Task, TaskRows, as_tuple, label_symbol
from tupe_fairseq.data.tokenizer import Tokenizer, unknown_warnings
from tupe_fairseq.files import file_sha256, list_files, output_folder, write_json
from tupe_fairseq.provenance import made_by, warn_of_other_version

logger = logging.getLogger(__name__)

# rows that are tokenized at a time
_BATCH = 10_000
# labels that are logged with their counts
_MOST_LABELS = 50


def prepare_folder(
    folder: str,
    settings: dict[str, Any],
    read: Callable[[], tuple[Task, dict[str, dict[str, TaskRows]], dict[str, Any]]],
    tokenizer: Tokenizer,
    workers: int | None = None,
    overwrite: bool = False,
    names: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Write the folder, unless it is finished; log and return the content of its report.json.

    ``settings`` have all that the rows depend on. ``read`` returns the task, the rows of its splits
    (of the folder itself, under "", or of each fold), and further entries for report.json.
    ``names`` are those of the files in ``settings``, for messages.
    """
    max_positions = tokenizer.max_positions or 512  # rows with more tokens are counted
    workers = workers or os.cpu_count() or 1
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
            "vocabulary_kind": tokenizer.kind,
            "max_positions": max_positions,
            "warnings": [],
            **made_by(),
            "settings": settings,
            **more,
        }
        total = task.texts * sum(len(x.texts) for of in parts.values() for x in of.values())
        logger.info("%s: encoding %d texts; large tasks take minutes", task.name, total)
        bar = tqdm(desc="encoding", total=total, unit="texts", disable=None, leave=False)
        counts = {}
        for name, splits in parts.items():
            own = os.path.normpath(os.path.join(partial, name))
            counts[name] = {
                split: _write_split(task, rows, own, split, tokenizer, max_positions, workers, bar)
                for split, rows in splits.items()
            }
            _write_dictionaries(task, splits["train"], own, tokenizer)
            report = {**about, "splits": counts[name], "files": list_files(own)}
            write_json(os.path.join(own, REPORT), report)
        bar.close()
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
    bar: tqdm,
) -> dict[str, Any]:
    """Write the texts, the labels and the row numbers of a split; returns report.json's counts."""
    _write_labels(task, rows, os.path.join(folder, "label"), split)
    lengths, unknown = [[] for _ in range(task.texts)], 0
    for number in range(task.texts):
        if task.kind == "tagging":
            encoded = _encode_words(task, rows, tokenizer, folder, split)
        else:
            lines = (tokenizer.normalize(texts[number]) for texts in rows.texts)
            encoded = tokenizer.encode_lines(lines, workers)
        prefix = os.path.join(folder, f"input{number}", split)
        with IndexedWriter(prefix, len(tokenizer.ids)) as writer:
            while ids := list(itertools.islice(encoded, _BATCH)):
                writer.write(ids)
                lengths[number] += map(len, ids)
                unknown += sum(row.count(UNK) for row in ids)
                bar.update(len(ids))
    if rows.index:
        Path(folder, f"{split}.index").write_text("\n".join([*rows.index, ""]))
    special = 2 * task.texts  # <s> a </s> </s> b </s>
    if empty := sum(0 in row for row in zip(*lengths)):
        rows.warnings["empty text"] = empty
    return {
        "rows_read": rows.read,
        "rows": len(rows.texts),
        "dropped": dict(rows.dropped),
        "warnings": dict(rows.warnings),
        "labels": _label_counts(task, rows),
        "unknown_rate": unknown / max(1, sum(map(sum, lengths))),
        "too_long": sum(sum(row) + special > max_positions for row in zip(*lengths)),
    }


def _encode_words(
    task: Task, rows: TaskRows, tokenizer: Tokenizer, folder: str, split: str
) -> Iterator[list[int]]:
    """The token ids of sentences.

    label/SPLIT gets the tag of a word at its first token and <pad> at the others. If tags are
    unknown, they are <unk>, which still shows where words begin.
    """
    ids = _label_ids(task)
    with IndexedWriter(os.path.join(folder, "label", split), 4 + len(ids)) as writer:
        for row, words in enumerate(rows.texts):
            of_words = tokenizer.encode_words(words)
            labels = rows.labels[row] if rows.labels else [None] * len(words)
            padded = ([ids.get(x, UNK), *[PAD] * (len(w) - 1)] for x, w in zip(labels, of_words))
            writer.write([[tag for tags in padded for tag in tags]])
            yield [i for ids_of_word in of_words for i in ids_of_word]


def _label_counts(task: Task, rows: TaskRows) -> dict[str, int]:
    """How often each label occurs."""
    if not rows.labels or task.is_regression:
        return {}
    counts = Counter(one for label in rows.labels for one in as_tuple(label))
    return {label: counts[label] for label in task.labels}


def _write_labels(task: Task, rows: TaskRows, folder: str, split: str) -> None:
    """Write labels, or scores scaled to 0 .. 1; tags are written with the words."""
    os.makedirs(folder, exist_ok=True)
    if not rows.labels or task.kind == "tagging":
        return
    if task.scale is not None:
        low, high = task.scale
        lines = [f"{(float(x) - low) / (high - low)!r}\n" for x in rows.labels]
        Path(folder, f"{split}.label").write_text("".join(lines))
        return
    ids = _label_ids(task)
    with IndexedWriter(os.path.join(folder, split), 4 + len(ids)) as writer:
        writer.write([[ids[one] for one in as_tuple(label)] for label in rows.labels])


def _write_dictionaries(task: Task, train: TaskRows, folder: str, tokenizer: Tokenizer) -> None:
    """Write the files of the vocabulary, and a dict.txt for each input and for the labels."""
    tokenizer.copy_to(folder)
    for number in range(task.texts):
        shutil.copy(os.path.join(folder, DICTIONARY), os.path.join(folder, f"input{number}"))
    if task.labels:
        counts = _label_counts(task, train)
        lines = [f"{label_symbol(label)} {counts[label]}\n" for label in task.labels]
        Path(folder, "label", DICTIONARY).write_text("".join(lines), encoding="utf-8")


def _label_ids(task: Task) -> dict[str, int]:
    return {label: id for id, label in enumerate(task.labels, len(SPECIAL_TOKENS))}
