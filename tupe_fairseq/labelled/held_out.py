"""Draws the rows of valid and test, or of the folds of cross-validation, from those of train."""

import argparse
import logging
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tupe_fairseq.kinds import Kind
from tupe_fairseq.kinds.base import all_of
from tupe_fairseq.labelled.task import TaskRows

logger = logging.getLogger(__name__)

#: fine-tuning needs two rows to train and to validate with
FEWEST = 2


def draw_parts(
    options: argparse.Namespace, train: TaskRows, normalize: Callable[[str], str]
) -> dict[str, dict[str, TaskRows]]:
    """Draw splits from one file: those of each fold by its folder, or one set of them under ""."""
    texts = _groups(keys_of(train, normalize, options.kind), train.groups)
    if options.folds:
        tested = _folds(options, train, texts)
    else:
        tested = {"": _hold_out(options, train, texts, range(len(texts)), "test")}
    parts = {}
    for folder, test in tested.items():
        rest = sorted({*range(len(texts))} - {*test})
        valid = _hold_out(options, train, texts, rest, "valid")
        rows = {"train": sorted({*rest} - {*valid}), "valid": valid, "test": test}
        parts[folder] = {split: _take(train, own) for split, own in rows.items() if own}
        parts[folder]["train"].dropped = train.dropped
    return parts


def _folds(options: argparse.Namespace, train: TaskRows, texts: Sequence) -> dict[str, list[int]]:
    """The rows that each fold tests, by its folder."""
    number, path, different = options.folds, options.files["train"], set(texts)
    what = "groups" if options.group else "texts"
    if len(different) < number:
        raise ValueError(
            f"{path} has {len(texts)} rows with {len(different)} different {what}, too few for "
            f"--folds {number}"
        )
    kept = _labels(options, train)
    counts = Counter(label for _, label in {(x, y) for x, of in zip(texts, kept) for y in of})
    rare = [f"{label!r} ({n})" for label, n in sorted(counts.items()) if n < number]
    if rare:
        text = "labels with fewer %s than folds, so that some folds test none of them: %s"
        logger.warning(text, what, ", ".join(rare))
    fold_of = deal(texts, options.kind.strata(train.labels), [1 / number] * number, options.seed)
    rows_of = ([row for row, own in enumerate(fold_of) if own == fold] for fold in range(number))
    return {f"fold{fold}": rows for fold, rows in enumerate(rows_of, 1)}


def keys_of(rows: TaskRows, normalize: Callable[[str], str], kind: Kind) -> list[tuple[str, ...]]:
    """The same key for rows that a model cannot tell apart, such as a pair in both orders."""
    texts = (map(normalize, texts) for texts in rows.texts)
    return [tuple(row if kind.of_words else sorted(row)) for row in texts]


def _labels(options: argparse.Namespace, rows: TaskRows) -> list[tuple[str, ...]]:
    """The labels of each row, of which the training set keeps at least one row."""
    return [all_of(label) if options.kind.has_labels else () for label in rows.labels]


def _groups(*keys: Sequence[Any]) -> list[int]:
    """The group of each row. Rows with an equal key of any kind are in the same one, and so are
    the rows that are equal to these."""
    group, first = list(range(len(keys[0]))), {}

    def find(row: int) -> int:
        while group[row] != row:
            row = group[row] = group[group[row]]
        return row

    for kind, of_kind in enumerate(keys):
        for row, key in enumerate(of_kind):
            group[find(row)] = find(first.setdefault((kind, key), row))
    return list(map(find, group))


def _take(rows: TaskRows, places: Iterable[int]) -> TaskRows:
    part = TaskRows()
    for place in places:
        group = rows.groups[place] if rows.groups else None
        part.add(rows.texts[place], rows.labels[place], rows.index[place], group)
    return part


def _hold_out(
    options: argparse.Namespace, train: TaskRows, texts: Sequence, rows: Sequence[int], split: str
) -> list[int]:
    """Those of some rows of train that are held out for a split; none if it has a file, or no share
    is given."""
    share = getattr(options, f"{split}_share")
    if share is None or split in options.files:
        return []
    part, own = _take(train, rows), [texts[row] for row in rows]
    what = "groups" if options.group else "texts"
    strata, labels = options.kind.strata(part.labels), _labels(options, part)
    drawn = draw_share(own, strata, labels, share, options.seed)
    if len(drawn) < FEWEST:
        advice = "raise it, or " * (len(set(own)) > 1) + "give more texts"
        advice += "" if options.folds else f" or --{split}"
        raise ValueError(
            f"--{split}-share {share:g} of {len(labels)} rows ({len(set(own))} different {what}) "
            f"holds out {len(drawn)}; {split} needs {FEWEST} or more; {advice}"
        )
    if not options.folds:
        logger.info("%d of %d rows of train are held out as %s", len(drawn), len(rows), split)
    return [rows[place] for place in sorted(drawn)]


def draw_share(
    texts: Sequence[Any],
    strata: Sequence[Any],
    labels: Sequence[tuple[str, ...]],
    share: float,
    seed: int,
) -> set[int]:
    """Draw a share of the rows, but leave at least one row with each label."""
    parts = deal(texts, strata, [1 - share, share], seed)
    drawn = {row for row, part in enumerate(parts) if part}
    left = Counter(x for row, label in enumerate(labels) if row not in drawn for x in label)
    for row in sorted(drawn):
        if row in drawn and any(not left[label] for label in labels[row]):
            same = {other for other in drawn if texts[other] == texts[row]}
            drawn -= same
            left.update(x for other in same for x in labels[other])
    return drawn


def deal(texts: Sequence[Any], strata: Sequence[Any], shares: Sequence[float], seed: int):
    """The part that each row goes to. Each part gets its share of the rows and, nearly, of each
    stratum.

    Rows with the same text (or group) go to the same part, and no part stays empty if there are
    enough texts.
    """
    draw, same = random.Random(seed), defaultdict(list)
    for row, text in enumerate(texts):
        same[text].append(row)
    parts, sizes, seen = [0] * len(texts), [0] * len(shares), 0
    groups = sorted(same.values(), key=lambda rows: (strata[rows[0]], draw.random()))
    for place, rows in enumerate(groups):
        seen += len(rows)
        last = sizes.count(0) >= len(groups) - place  # the last groups fill the empty parts
        # the part that lacks most; rounded, so that ties are broken at random
        lacks = [
            (last and not n, round(x * seen - n, 9), draw.random()) for x, n in zip(shares, sizes)
        ]
        part = lacks.index(max(lacks))
        sizes[part] += len(rows)
        for row in rows:
            parts[row] = part
    return parts
