"""Reads your own labelled files as a task: columns, texts and labels."""

import argparse
import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tupe_fairseq.data.metrics import unfit
from tupe_fairseq.data.row_formats import RowError, quoted
from tupe_fairseq.data.rows import BadRows, read_columns, read_rows
from tupe_fairseq.kinds.base import Label, all_of, counted, is_number, spelling
from tupe_fairseq.labelled.columns import Columns, choose_columns, find_column
from tupe_fairseq.labelled.held_out import draw_parts, keys_of
from tupe_fairseq.labelled.task import Task, TaskRows

logger = logging.getLogger(__name__)

# what test sets without labels have in their place
_UNLABELLED = re.compile(
    r"\W*(_+|nan?|n/a|null|none|hidden|unknown|unlabell?ed)?\W*|\\n|-\d+(\.0)?", re.IGNORECASE
)


def read_task(
    options: argparse.Namespace, normalize: Callable[[str], str]
) -> tuple[Task, dict[str, dict[str, TaskRows]], dict[str, Any]]:
    """The task, the rows of its splits by folder, and the columns of train for report.json.

    ``options`` are the flags of tupe-prepare-task, with ``files`` by split. Texts count as equal if
    they are equal after ``normalize``.
    """
    kind, files, labels = options.kind, options.files, options.labels
    columns = choose_columns(
        files["train"],
        options.text,
        options.text2,
        options.label,
        num_texts=1 if kind.of_words else None,
        labelled=True,
    )
    normal = kind.normalizer(labels)
    train = _read(options, "train", columns, labels, normal)
    if not labels:
        normal = kind.normalizer(labels, train.labels)
        train.labels = list(map(normal, train.labels))
    labels = kind.find_labels(options, train.labels, columns.label)
    parts = draw_parts(options, train, normalize)
    splits = next(iter(parts.values()))
    for split in filter(files.__contains__, ("valid", "test")):
        own = columns
        if split == "test" and not _is_labelled(options, columns, train):
            own = columns._replace(label=None)
        splits[split] = _read(options, split, own, labels, normal)
    sizes = [len(splits[split].texts) for split in ("train", "valid")]
    if sizes[1] > sizes[0]:
        logger.warning("valid has %d rows, more than train with %d", sizes[1], sizes[0])
    scale = kind.find_scale(train.labels)
    for rows in splits.values() if scale else ():
        low, high = scale
        if outside := sum(not low <= float(label) <= high for label in rows.labels):
            rows.warnings[f"score outside {low:g} to {high:g}"] = outside
    _warn_of_leaks(options, {split: splits[split] for split in ("train", *files)}, normalize)
    names = tuple(split for split in ("train", "valid", "test") if split in splits)
    fit = [name for name in kind.metrics if not unfit(name, labels)]
    metrics = tuple(fit[:2]), kind.selection or fit[0]
    task = Task(options.name, kind, labels, len(columns.texts), names, *metrics, scale=scale)
    return task, parts, {"columns": columns._asdict()}


def _read(
    options: argparse.Namespace,
    split: str,
    columns: Columns,
    labels: Sequence[str],
    normal: Callable[[Label], Label],
) -> TaskRows:
    """The usable rows of a file; the others are counted, or refused.

    ``labels`` are those allowed, if they are known; ``normal`` is the kind's ``normalizer``.
    """
    path, bad = options.files[split], BadRows(options.skip_bad_rows)
    rows, spaced, needed = TaskRows(dropped=bad), Counter[str](), columns.all
    group, kind = options.group, options.kind
    if group and split != "train" and group not in read_columns(path):
        logger.warning("%s has no column %r (--group), so leaks are not counted", path, group)
        group = None
    if group:
        needed.append(find_column(path, read_columns(path), group, "--group"))

    def use(index: int, row: dict[str, Any], texts: dict[str, Any]) -> None:
        values, label = [texts[name] for name in columns.texts], None
        values = kind.read_texts(values)
        if columns.label is not None:
            cell = texts[columns.label]
            label = kind.read_label(cell, values, options.label_separator, options.labels)
            if kind.has_labels and not kind.many and cell.strip() != cell:
                spaced[label] += 1
            label = normal(label)
            _refuse_unknown(label, labels)
        of_row = texts.get(group)
        if group and (not isinstance(of_row, str) or not of_row.strip()):
            raise RowError(f"has no group in column {group!r}", "no group")
        rows.add(values, label, str(index), of_row and of_row.strip())

    for _ in read_rows(path, needed, bad, use):
        pass
    if not rows.texts:
        raise ValueError(f"{path}: no row can be used; left out: {bad}")
    if spaced:
        text = "%s: spaces around labels are dropped: %s"
        logger.warning(text, path, counted(spaced, [*spaced]))
    return rows


def read_label(
    task: Task, separator: str, value: str | list[str], words: Sequence[str]
) -> str | tuple[str, ...]:
    """The label, labels or tags of a row for a trained task; RowError if it has none."""
    label = task.kind.read_label(value, words, separator, task.labels)
    label = task.kind.normalizer(task.labels)(label)
    _refuse_unknown(label, task.labels)
    return label


def _refuse_unknown(label: str | tuple[str, ...], labels: Sequence[str]) -> None:
    for one in all_of(label) if labels else ():
        if one not in labels:
            alike = next((x for x in labels if spelling(x) == spelling(one)), None)
            advice = "" if alike is None else f"; write {alike!r}"
            problem = f"has the label {one!r}, not one of {quoted(labels)}{advice}"
            raise RowError(problem, "unknown label")


def _is_labelled(options: argparse.Namespace, columns: Columns, train: TaskRows) -> bool:
    """Whether a test set has labels, not only placeholders (-1, ?, ...) that train lacks."""
    path, column, cells = options.files["test"], columns.label, set()
    known = {one for label in train.labels for one in all_of(label)}
    rows = read_rows(path, [column], BadRows())
    for _, row in rows:
        cell = row[column]
        cells.update((cell.split() if isinstance(cell, str) else cell) or [""])
    if cells == {""} and options.kind.may_be_empty:
        return True
    numbers = {float(x) for x in cells if is_number(x)}  # a placeholder is one number
    if len(numbers) > 1 or any(x in known or not _UNLABELLED.fullmatch(x) for x in cells):
        return True
    logger.info("%s has no labels in column %r: %s", path, column, quoted(cells) or "none")
    return False


def _warn_of_leaks(
    options: argparse.Namespace, splits: dict[str, TaskRows], normalize: Callable[[str], str]
) -> None:
    """Warn if given files share texts or groups with train; splits drawn from one file never do."""
    train = splits.pop("train")
    texts = set(keys_of(train, normalize, options.kind)) if splits else set()
    groups = set(train.groups)
    for split, rows in splits.items():
        total = len(rows.texts)
        if number := sum(key in texts for key in keys_of(rows, normalize, options.kind)):
            rows.warnings["also in train"] = number
            logger.warning("%d of %d rows of %s are in train, too", number, total, split)
        if number := sum(group in groups for group in rows.groups):
            rows.warnings[f"{options.group} also in train"] = number
            text = "%d of %d rows of %s have a %r that train has, too"
            logger.warning(text, number, total, split, options.group)
