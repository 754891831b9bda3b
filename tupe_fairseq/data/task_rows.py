"""Reads your own labelled files as a task: columns, texts and labels."""

import argparse
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Sequence
from typing import Any

from tupe_fairseq.data.columns import Columns, choose_columns, find_column
from tupe_fairseq.data.held_out import FEWEST, draw_parts, keys_of
from tupe_fairseq.data.metrics import are_entities
from tupe_fairseq.data.rows import (
    BadRows,
    RowError,
    quoted,
    read_columns,
    read_rows,
    refuse_list,
    texts_of,
    words_of,
)
from tupe_fairseq.data.task import Task, TaskRows, as_tuple, is_number
from tupe_fairseq.data.text_files import printable

logger = logging.getLogger(__name__)

BIO, IOB1 = "BIO", "IOB1"
# the metrics that are reported, and the one that picks the best checkpoint
_METRICS = {
    "classification": (("accuracy", "macro_f1"), "accuracy"),
    "regression": (("pearson", "spearman"), "pearson_and_spearman"),
    "multilabel": (("micro_f1", "macro_f1"), "micro_f1"),
    "tagging": (("accuracy",), "accuracy"),
    BIO: (("entity_f1", "accuracy"), "entity_f1"),
}
# more labels than this, and than half of the rows, are probably not classes
_MANY_LABELS = 20
# a class of fewer rows is hardly learned, and not measured
_FEW_ROWS = 5
# what pandas and databases write for a missing value
_NOTHING = re.compile(r"|nan|null|<na>|\\n", re.IGNORECASE)
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
        num_texts=1 if kind == "tagging" else None,
        labelled=True,
    )
    train = _read(options, "train", columns, labels)
    scheme = _scheme(train) if kind == "tagging" else None
    converts = scheme == IOB1 and not labels
    if converts:
        train.labels = list(map(_as_bio, train.labels))
    if kind != "regression":
        labels = _labels(options, train, columns)
    parts = draw_parts(options, train, normalize)
    splits = next(iter(parts.values()))
    for split in filter(files.__contains__, ("valid", "test")):
        own = columns
        if split == "test" and not _is_labelled(options, columns, _seen(train)):
            own = columns._replace(label=None)
        splits[split] = _read(options, split, own, labels, converts=converts)
    for of_part in parts.values():
        for split, rows in of_part.items():
            if split != "test" and len(rows.texts) < FEWEST:
                raise ValueError(f"{split} has {len(rows.texts)} rows; fine-tuning needs {FEWEST}")
    sizes = [len(splits[split].texts) for split in ("train", "valid")]
    if sizes[1] > sizes[0]:
        logger.warning("valid has %d rows, more than train with %d", sizes[1], sizes[0])
    scale = _scale(train, splits) if kind == "regression" else None
    _warn_of_leaks(options, {split: splits[split] for split in ("train", *files)}, normalize)
    names = tuple(split for split in ("train", "valid", "test") if split in splits)
    metrics = _METRICS[BIO if scheme else kind]
    task = Task(options.name, kind, labels, len(columns.texts), names, *metrics, scale=scale)
    return task, parts, {"columns": columns._asdict()}


def _read(
    options: argparse.Namespace,
    split: str,
    columns: Columns,
    labels: Sequence[str],
    converts: bool = False,
) -> TaskRows:
    """The usable rows of a file; the others are counted, or refused.

    ``labels`` are those allowed, if they are known. ``converts`` turns IOB1, where B-x begins an
    entity only right after another x, into BIO.
    """
    path, bad = options.files[split], BadRows(options.skip_bad_rows)
    rows, spaced, needed = TaskRows(dropped=bad), Counter[str](), columns.all
    group = options.group
    if group and split != "train" and group not in read_columns(path):
        logger.warning("%s has no column %r (--group), so leaks are not counted", path, group)
        group = None
    if group:
        needed.append(find_column(path, read_columns(path), group, "--group"))

    def use(index: int, row: dict[str, Any], texts: dict[str, Any]) -> None:
        values, label = [texts[name] for name in columns.texts], None
        values = words_of(values[0]) if options.kind == "tagging" else texts_of(values)
        if columns.label is not None:
            label, cell = _label(options, texts[columns.label], values), texts[columns.label]
            if options.kind == "classification" and cell.strip() != cell:
                spaced[label] += 1
            label = _as_bio(label) if converts else label
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
        logger.warning(text, path, _counted(spaced, [*spaced]))
    return rows


def read_label(
    task: Task, separator: str, value: str | list[str], words: Sequence[str]
) -> str | tuple[str, ...]:
    """The label, labels or tags of a row for a trained task; RowError if it has none."""
    options = argparse.Namespace(kind=task.kind, labels=task.labels, label_separator=separator)
    label = _label(options, value, words)
    if task.kind == "tagging" and are_entities(task.labels):
        # if the task was trained with BIO, or with IOB1 turned into BIO
        needed = {"B" + tag[1:] for tag in task.labels if tag[0] == "I"}
        is_bio = needed <= {*task.labels} and {tag[0] for tag in task.labels} <= {*"BIO"}
        label = _as_bio(label) if is_bio else label
    _refuse_unknown(label, task.labels)
    return label


def _refuse_unknown(label: str | tuple[str, ...], labels: Sequence[str]) -> None:
    for one in as_tuple(label) if labels else ():
        if one not in labels:
            alike = next((x for x in labels if _key(x) == _key(one)), None)
            advice = "" if alike is None else f"; write {alike!r}"
            problem = f"has the label {one!r}, not one of {quoted(labels)}{advice}"
            raise RowError(problem, "unknown label")


def _key(label: str) -> str:
    """The same for labels that a reader would take for the same."""
    return "".join(label.removesuffix(".0").casefold().split())


def _seen(rows: TaskRows) -> Counter[str]:
    """All labels or tags of rows, and how often each occurs."""
    return Counter(one for label in rows.labels for one in as_tuple(label))


def _scheme(train: TaskRows) -> str | None:
    """The scheme of the tags (BIO, ...), or None if they are not entities."""
    if not are_entities(_seen(train)):
        logger.info("the tags are not entities (BIO, BIOES, BILOU): accuracy is measured")
        return None
    others = sum(tags != _as_bio(tags) for tags in train.labels)
    first = {tag[0] for tag in _seen(train)}
    scheme = "BIOES" if first & {*"ES"} else "BILOU" if first & {*"LU"} else IOB1 if others else BIO
    logger.info("the tags are %s: F1 of entities is measured", scheme)
    if scheme == IOB1:
        logger.info("rows with an entity that begins with I-: %d", others)
    return scheme


def _is_labelled(options: argparse.Namespace, columns: Columns, known: Container[str]) -> bool:
    """Whether a test set has labels, not only placeholders (-1, ?, ...) that train lacks."""
    path, column, cells = options.files["test"], columns.label, set()
    rows = read_rows(path, [column], BadRows())
    for _, row in rows:
        cell = row[column]
        cells.update((cell.split() if isinstance(cell, str) else cell) or [""])
    if cells == {""} and options.kind == "multilabel":
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


def _label(options: argparse.Namespace, value: str | list[str], words: Sequence[str]) -> Any:
    """The label of a row, or its labels or tags, stripped of surrounding space."""
    kind, label = options.kind, value
    if kind == "tagging":
        label = words_of(value)
    elif isinstance(value, str):
        refuse_list(value, kind == "multilabel" or "," in value)
        label = [value]
        if kind == "multilabel":
            label = value.split(options.label_separator) if value.strip() else []
    elif kind != "multilabel":
        problem = "has a list of labels; only --kind multilabel takes lists"
        raise RowError(problem, "a list of labels")
    label = tuple(printable(one).strip() for one in label)
    for one in label:
        if _NOTHING.fullmatch(one) and one not in options.labels:
            names = one and kind in ("classification", "multilabel", "tagging")
            advice = "; if it is a label, list all in tupe-prepare-task --labels" if names else ""
            raise RowError(f"has an empty label, {one!r}{advice}", "empty label")
        if kind == "multilabel" and label.count(one) > 1:
            problem = f"has the label {one!r} twice; give names, not 0 and 1"
            raise RowError(problem, "a label twice")
        if kind == "regression" and not is_number(one):
            raise RowError(f"has the score {one!r}, not a number", "not a number")
    if kind == "tagging" and not len(label) == len(words) > 0:
        problem = f"has {len(label)} tags for {len(words)} words"
        raise RowError(problem, "unequal words and tags" if label or words else "no words")
    return label if kind in ("tagging", "multilabel") else label[0]


def _as_bio(tags: Sequence[str]) -> tuple[str, ...]:
    pairs = zip(("O", *tags), tags)
    return tuple(
        f"B{tag[1:]}" if tag[0] == "I" and (before == "O" or before[2:] != tag[2:]) else tag
        for before, tag in pairs
    )


def _labels(options: argparse.Namespace, train: TaskRows, columns: Columns) -> tuple[str, ...]:
    """The labels in the order of the classes; all occur in train."""
    seen, path = _seen(train), options.files["train"]
    for label in options.labels:
        if label not in seen:
            raise ValueError(f"--labels has {label!r}, which does not occur in {path}")
    fewest = 1 if options.kind == "multilabel" else 2
    if len(seen) < fewest:
        raise ValueError(
            f"{path} has {len(seen)} different labels ({quoted(seen) or 'none'}); --kind "
            f"{options.kind} needs {fewest} or more"
        )
    for label in seen:
        if f"{label}.0" in seen:
            raise ValueError(f"{path} has the labels {label!r} and '{label}.0'; write one")
    if options.kind == "multilabel" and max(map(len, train.labels)) == 1:
        if any({*";|/、，；،؛"} & {*label} for label in seen):
            text = "no row of %s has two labels; is %r between them (--label-separator)?"
            logger.warning(text, path, options.label_separator)
    if options.kind == "classification" and not options.labels:
        if len(seen) > max(_MANY_LABELS, len(train.labels) // 2):
            raise ValueError(
                f"{path} has {len(seen)} different labels in {len(train.labels)} rows; is column "
                f"{columns.label!r} the label (--label)? --kind regression is for numbers"
            )
    alike = defaultdict(list)
    for label in seen:
        alike[_key(label)].append(label)
    for same in alike.values():
        if len(same) > 1:
            logger.warning("labels that differ only in case or spaces: %s", _counted(seen, same))
    rare = sorted(label for label in seen if seen[label] < _FEW_ROWS)
    if rare and options.kind != "tagging":
        logger.warning("labels of fewer than %d rows: %s", _FEW_ROWS, _counted(seen, rare))
    numeric = all(map(is_number, seen))
    labels = sorted(seen, key=lambda label: (float(label) if numeric else 0, label))
    logger.info("labels in the order of the classes: %s", quoted(options.labels or labels))
    return options.labels or tuple(labels)


def _counted(counts: Counter[str], labels: Sequence[str]) -> str:
    return ", ".join(f"{label!r} ({counts[label]})" for label in labels[:10])


def _scale(train: TaskRows, splits: dict[str, TaskRows]) -> tuple[float, float]:
    """The lowest and the highest score in train's file; scores outside are counted."""
    scores = list(map(float, train.labels))
    low, high = min(scores), max(scores)
    if low == high:
        raise ValueError(f"all scores of train are {low:g}; there is nothing to learn")
    logger.info("the scale is %g to %g, as in train", low, high)
    for rows in splits.values():
        outside = sum(not low <= float(label) <= high for label in rows.labels)
        if outside:
            rows.warnings[f"score outside {low:g} to {high:g}"] = outside
    return low, high
