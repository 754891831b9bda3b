"""Reads the files of a task of one's own: what is learned, and the rows of each split."""

import logging

from tupe_fairseq.labelled.bio_tags import are_bio
from tupe_fairseq.labelled.label_values import shown, sorted_labels
from tupe_fairseq.labelled.own_columns import OpenedFile
from tupe_fairseq.labelled.own_rows import OwnRow, OwnRows
from tupe_fairseq.labelled.own_splits import own_splits
from tupe_fairseq.labelled.own_task import BIO, PLAIN, OwnTask
from tupe_fairseq.labelled.prepare_folder import ReadTask
from tupe_fairseq.labelled.row_checks import check_bio, check_labels, check_scale
from tupe_fairseq.labelled.task_description import (
    CLASSIFICATION,
    MULTILABEL,
    REGRESSION,
    TAGGING,
    Task,
)
from tupe_fairseq.labelled.task_rows import TaskRows, as_tuple
from tupe_fairseq.text.json_texts import names_of

logger = logging.getLogger(__name__)

# what is reported, and by which of them checkpoints are picked
_METRICS = {
    CLASSIFICATION: (("accuracy", "macro_f1"), "accuracy"),
    REGRESSION: (("pearson", "spearman"), "pearson_and_spearman"),
    MULTILABEL: (("micro_f1", "macro_f1"), "micro_f1"),
    TAGGING: (("accuracy",), "accuracy"),
    BIO: (("entity_f1", "accuracy"), "entity_f1"),
}


def read_own_task(options: OwnTask, files: dict[str, OpenedFile]) -> ReadTask:
    """Read the files.

    Args:
        options (OwnTask): what the user says of the task.
        files (dict): split to its file.
    Returns:
        ReadTask: with rows of valid that were put aside from train, if it has no file of its own.
    Raises:
        OSError: if a file cannot be read.
        ValueError: if a row cannot be used and may not be left out, or a label cannot be learned;
            the message names the file and the row.
    """
    train = OwnRows(files["train"], options)
    tags = _tag_scheme(options, train.rows)
    if tags == BIO:
        train.check(check_bio)
    labels: tuple[str, ...] = ()
    if options.kind == REGRESSION:
        if options.scale is not None:
            train.check(check_scale(options.scale))
    else:
        labels = _labels(options, train, files["train"].file.path)
    others = {split: OwnRows(file, options) for split, file in files.items() if split != "train"}
    for rows in others.values():
        if tags == BIO:
            rows.check(check_bio)
        if labels:
            rows.check(check_labels(labels, "does not occur in train and cannot be learned"))
    splits = own_splits(options, train, others)
    scale = None
    if options.kind == REGRESSION:
        scale = options.scale or _scale(splits["train"])
        _count_outside(scale, splits)
    metrics, selection = _METRICS[BIO if tags == BIO else options.kind]
    task = Task(
        name=options.name,
        kind=options.kind,
        labels=labels,
        texts=len(files["train"].texts),
        splits=tuple(splits),
        metrics=metrics,
        selection=selection,
        scale=scale,
    )
    return ReadTask(task, splits, [])


def _tag_scheme(options: OwnTask, rows: list[OwnRow]) -> str | None:
    """What tags are; None of other labels."""
    if options.kind != TAGGING or options.tags is not None:
        return options.tags
    if are_bio(tag for row in rows for tag in as_tuple(row.label or ())):
        logger.info(
            "the tags are BIO, and checked as such (--tags %s takes them as they are)", PLAIN
        )
        return BIO
    return PLAIN


def _labels(options: OwnTask, train: OwnRows, path: str) -> tuple[str, ...]:
    """The labels in the order of the classes; all are in train."""
    if options.labels:
        train.check(check_labels(options.labels, "is not one of --labels"))
    found = {label for row in train.rows for label in as_tuple(row.label or ())}
    absent = [label for label in options.labels if label not in found]
    if absent:
        raise ValueError(
            f"--labels has {shown(absent[0])}, which does not occur in {path} and cannot be learned"
        )
    fewest = 1 if options.kind == MULTILABEL else 2
    if len(found) < fewest:
        only = f"only the label {shown(*found)}" if found else "no label"
        raise ValueError(f"{path} has {only}; --kind {options.kind} needs {fewest} or more")
    labels = options.labels or sorted_labels(found)
    logger.info("labels in the order of the classes: %s", names_of(labels))
    return labels


def _scale(train: TaskRows) -> tuple[float, float]:
    scores = [float(label) for (label,) in map(as_tuple, train.labels)]
    low, high = min(scores), max(scores)
    if low == high:
        raise ValueError(f"all scores of train are {low:g}; there is nothing to be learned")
    logger.info("the scale is %g to %g, as in train (--scale)", low, high)
    return low, high


def _count_outside(scale: tuple[float, float], splits: dict[str, TaskRows]) -> None:
    low, high = scale
    for rows in splits.values():
        outside = sum(not low <= float(one) <= high for x in rows.labels for one in as_tuple(x))
        if outside:
            rows.warnings[f"score outside {low:g} to {high:g}"] += outside
