"""Divides the rows of a task of one's own into its splits."""

import logging

from tupe_fairseq.labelled.own_rows import OwnRow, OwnRows, as_task_rows
from tupe_fairseq.labelled.own_task import OwnTask
from tupe_fairseq.labelled.put_aside import put_aside
from tupe_fairseq.labelled.task_description import CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING
from tupe_fairseq.labelled.task_rows import TaskRows, as_tuple

logger = logging.getLogger(__name__)

# fine-tuning needs two rows to validate with
_FEWEST = 2


def own_splits(options: OwnTask, train: OwnRows, others: dict[str, OwnRows]) -> dict[str, TaskRows]:
    """The rows of each split, and what is counted of them; valid is put aside from train if absent.

    Args:
        options (OwnTask): what the user says of the task.
        train (OwnRows): the rows that can be used.
        others (dict): the same of valid and test, if they have files.
    Raises:
        ValueError: if fewer than two rows are left to train or to validate with.
    """
    are_words = options.kind == TAGGING
    aside = set() if "valid" in others else _aside(options, train.rows)
    kept = [row for place, row in enumerate(train.rows) if place not in aside]
    splits = {"train": as_task_rows(kept, are_words)}
    splits["train"].read, splits["train"].dropped = train.read - len(aside), train.dropped
    if aside:
        drawn = [train.rows[place] for place in sorted(aside)]
        splits["valid"] = as_task_rows(drawn, are_words)
    for split, rows in others.items():
        splits[split] = as_task_rows(rows.rows, are_words)
        splits[split].read, splits[split].dropped = rows.read, rows.dropped
        if split == "test":
            splits[split].index = [str(row.index) for row in rows.rows]
    for split, rows in splits.items():
        if split != "test" and len(rows.texts) < _FEWEST:
            raise ValueError(
                f"{split} has {len(rows.texts)} rows; fine-tuning needs {_FEWEST} or more"
            )
    return splits


def _aside(options: OwnTask, rows: list[OwnRow]) -> set[int]:
    is_stratified = options.kind in (CLASSIFICATION, MULTILABEL)
    strata = [tuple(sorted(as_tuple(row.label or ()))) if is_stratified else () for row in rows]
    has_scores = options.kind == REGRESSION
    labels = [() if has_scores else as_tuple(row.label or ()) for row in rows]
    aside = put_aside(strata, labels, options.valid_share, options.seed)
    if len(aside) < _FEWEST:
        raise ValueError(
            f"--valid-share {options.valid_share:g} of {len(rows)} rows puts {len(aside)} aside, "
            f"and validation needs {_FEWEST} or more; raise it, or give --valid"
        )
    logger.info("%d of %d rows of train are put aside as valid", len(aside), len(rows))
    return aside
