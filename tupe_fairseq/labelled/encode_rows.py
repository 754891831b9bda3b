"""Writes the texts of a split as fairseq reads them, and what its part of report.json says."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tupe_fairseq.labelled.row_encoder import RowBatch, RowEncoder
from tupe_fairseq.labelled.task_description import TAGGING, Task
from tupe_fairseq.labelled.task_rows import TaskRows, as_tuple
from tupe_fairseq.text.mmap_writer import sentence_writer
from tupe_fairseq.text.parallel import ordered_map
from tupe_fairseq.text.pretrain_dir import PretrainDir

# Rows encoded at a time: enough to be fast, and to pay for another process; few enough to bound
# memory.
_BATCH = 10_000
# the scores of a regression are counted in so many parts of the scale
_INTERVALS = 5


def encode_rows(
    task: Task,
    rows: TaskRows,
    pretrained: PretrainDir,
    folder: str,
    split: str,
    max_positions: int,
    workers: int,
    advance: Callable[[int], Any],
) -> dict[str, Any]:
    """Write FOLDER/input0/SPLIT (and input1/SPLIT); of tagging, FOLDER/label/SPLIT, too.

    Args:
        task (Task): the task.
        rows (TaskRows): of the split; problems that show only now are added to its warnings.
        pretrained (PretrainDir): vocabulary and text treatment.
        folder (str): where the files go.
        split (str): the name of the split.
        max_positions (int): the length in tokens above which rows are counted as too long.
        workers (int): the most processes; their number does not change the result.
        advance (callable): told how many texts more are encoded.
    Returns:
        dict: the split's part of the report.
    Raises:
        OSError: if there is no space left.
    """
    encoder = RowEncoder(task, pretrained)
    workers = max(1, min(workers, len(rows.texts) // _BATCH))
    lengths = np.zeros(len(rows.texts), np.int64)
    tokens = unknown = 0
    for number in range(task.texts):
        with contextlib.ExitStack() as files:
            prefix = os.path.join(folder, f"input{number}", split)
            texts = files.enter_context(sentence_writer(prefix, encoder.dtype))
            if task.kind == TAGGING:
                prefix = os.path.join(folder, "label", split)
                tags = files.enter_context(sentence_writer(prefix, encoder.tag_type))
            row = 0
            for encoded in ordered_map(encoder, _batches(task, rows, number), workers):
                texts.write(encoded.texts)
                if encoded.tags is not None:
                    tags.write(encoded.tags)
                if encoded.words_apart:
                    problem = "words apart have other pieces than in a line"
                    rows.warnings[problem] += encoded.words_apart
                found = encoded.texts.lengths
                # they count </s>; a row is <s> a </s>, of a pair then </s> b </s>
                lengths[row : row + len(found)] += found + 1
                row += len(found)
                tokens += int(found.sum()) - len(found)
                unknown += encoded.unknown
                advance(len(found))
    too_long = {*np.flatnonzero(lengths > max_positions).tolist(), *rows.cut}
    return {
        "rows_read": rows.read,
        "rows": len(rows.texts),
        "dropped": dict(rows.dropped),
        "warnings": dict(rows.warnings),
        "labels": _label_counts(task, rows),
        "unknown_rate": unknown / max(1, tokens),
        "too_long": len(too_long),
    }


def _batches(task: Task, rows: TaskRows, number: int) -> Iterator[RowBatch]:
    """The rows with the text of this number; of tagging, with their words and tags."""
    for start in range(0, len(rows.texts), _BATCH):
        part = slice(start, start + _BATCH)
        if task.kind == TAGGING:
            tags = [as_tuple(label) for label in rows.labels[part]]
            yield RowBatch(rows.texts[part], tags if rows.labels else None)
        else:
            yield RowBatch([texts[number] for texts in rows.texts[part]])


def _label_counts(task: Task, rows: TaskRows) -> dict[str, int]:
    """How often each label occurs; for scores, how many are in each fifth of the scale."""
    if not rows.labels:
        return {}
    if task.scale is None:
        counts = Counter(one for label in rows.labels for one in as_tuple(label))
        return {label: counts[label] for label in task.labels}
    low, high = task.scale
    step = (high - low) / _INTERVALS
    last = _INTERVALS - 1
    places = Counter(min(max(int((float(x) - low) / step), 0), last) for x in rows.labels)
    return {f"{low + n * step:g} to {low + (n + 1) * step:g}": places[n] for n in range(_INTERVALS)}
