"""Makes pieces of the texts of a split, and what its part of report.json says of them."""

from collections import Counter
from itertools import repeat
from typing import Any, Callable, Dict, Iterator, List, Sequence

from tupe_fairseq.files.atomic import atomic_write
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS
from tupe_fairseq.tasks.labels import label_symbol
from tupe_fairseq.tasks.task_description import TAGGING, Task
from tupe_fairseq.tasks.task_rows import TaskRows, as_tuple
from tupe_fairseq.text.pretrain_dir import PretrainDir
from tupe_fairseq.text.treatment import one_line
from tupe_fairseq.text.word_pieces import differs_from_line, word_pieces

# Texts encoded at a time: enough to be fast, few enough to bound memory.
_BATCH = 10_000
_, _PAD, _, _UNKNOWN = BUILT_IN_SYMBOLS
# the scores of a regression are counted in so many parts of the scale
_INTERVALS = 5


def encode_rows(
    task: Task,
    rows: TaskRows,
    pretrained: PretrainDir,
    prefix: str,
    max_positions: int,
    advance: Callable[[int], Any],
) -> Dict[str, Any]:
    """Write PREFIX.input0 (and .input1) as pieces; of tagging, PREFIX.label, too.

    Args:
        task (Task): the task.
        rows (TaskRows): of the split; problems that show only now are added to its warnings.
        pretrained (PretrainDir): vocabulary and text treatment.
        prefix (str): folder and name of the files to write.
        max_positions (int): the length in tokens above which rows are counted as too long.
        advance (callable): told how many texts more are encoded.
    Returns:
        dict: the split's part of the report.
    """
    lengths = [0] * len(rows.texts)
    tokens = unknown = 0
    for number in range(task.texts):
        if task.kind == TAGGING:
            batches = _words(rows, pretrained, prefix)
        else:
            batches = _texts([texts[number] for texts in rows.texts], pretrained)
        with atomic_write(f"{prefix}.input{number}") as file:
            row = 0
            for batch in batches:
                for ids in batch:
                    file.write(pretrained.pieces.to_text(ids) + "\n")
                    lengths[row] += len(ids) + 2  # <s> a </s>, then </s> b </s>
                    tokens += len(ids)
                    unknown += ids.count(pretrained.pieces.unknown_id)
                    row += 1
                advance(len(batch))
    too_long = sum(length > max_positions or row in rows.cut for row, length in enumerate(lengths))
    return {
        "rows_read": rows.read,
        "rows": len(rows.texts),
        "dropped": dict(rows.dropped),
        "warnings": dict(rows.warnings),
        "labels": _label_counts(task, rows),
        "unknown_rate": unknown / max(1, tokens),
        "too_long": too_long,
    }


def _texts(texts: Sequence[str], pretrained: PretrainDir) -> Iterator[List[List[int]]]:
    """The ids of each text, a batch at a time."""
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        yield pretrained.pieces.encode([pretrained.treatment.apply(one_line(t)) for t in batch])


def _words(rows: TaskRows, pretrained: PretrainDir, prefix: str) -> Iterator[List[List[int]]]:
    """The ids of each sentence, a batch at a time; its tags are written on the way.

    The tag of a word stands on its first piece, and ``<pad>`` on its others.  Without tags
    ``<unk>`` stands there, since it says where words begin.
    """
    pieces, treatment = pretrained.pieces, pretrained.treatment
    symbols = {label: label_symbol(label) for label in set().union(*rows.labels)}
    with atomic_write(f"{prefix}.label") as file:
        for start in range(0, len(rows.texts), _BATCH):
            sentences = rows.texts[start : start + _BATCH]
            batch = word_pieces(pieces, treatment, sentences)
            for row, (words, split) in enumerate(zip(sentences, batch), start):
                if differs_from_line(pieces, treatment, words, split):
                    rows.warnings["words apart have other pieces than in a line"] += 1
                tags = map(symbols.get, rows.labels[row]) if rows.labels else repeat(_UNKNOWN)
                signs = ((tag, *[_PAD] * (len(ids) - 1)) for tag, ids in zip(tags, split))
                file.write(" ".join(sign for of_word in signs for sign in of_word) + "\n")
            yield [[i for ids in split for i in ids] for split in batch]


def _label_counts(task: Task, rows: TaskRows) -> Dict[str, int]:
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
