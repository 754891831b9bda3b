"""Opens the files of a task of one's own, and finds their columns."""

import logging
from typing import NamedTuple

from tupe_fairseq.labelled.own_task import OwnTask
from tupe_fairseq.labelled.task_description import MULTILABEL, TAGGING
from tupe_fairseq.rows.guessed_columns import guess_columns
from tupe_fairseq.rows.open_rows import open_rows
from tupe_fairseq.rows.row_file import RowFile
from tupe_fairseq.text.json_texts import names_of

logger = logging.getLogger(__name__)

TEXT_FLAG, SECOND_FLAG, LABEL_FLAG = "--text", "--text2", "--label"


class OpenedFile(NamedTuple):
    """A file whose columns are known.

    Args:
        file (RowFile): the file.
        texts (tuple of str): the column of the text, or those of the two.
        label (str, optional): the column of the label; None in a test set without labels.
    """

    file: RowFile
    texts: tuple[str, ...]
    label: str | None


def open_files(options: OwnTask) -> dict[str, OpenedFile]:
    """Open the file of each split; what is guessed about the first one holds for all, and is said.

    Raises:
        OSError: if a file cannot be read.
        ValueError: if one is empty or lacks a column, or its columns cannot be guessed.
        ModuleNotFoundError: if one is parquet and pyarrow is not installed.
    """
    files = {split: open_rows(path, options.header) for split, path in options.files.items()}
    if not options.header and all(file.has_names or file.tags for file in files.values()):
        raise ValueError("--no-header has no effect: none of the files is .tsv or .csv; drop it")
    texts, label = _columns(files["train"], options)
    found = {}
    for split, file in files.items():
        ours = tuple(file.column(name, flag) for name, flag in zip(texts, (TEXT_FLAG, SECOND_FLAG)))
        has_label = split != "test" or _is_labelled(file, label, options.kind)
        found[split] = OpenedFile(file, ours, file.column(label, LABEL_FLAG) if has_label else None)
    return found


def _columns(file: RowFile, options: OwnTask) -> tuple[tuple[str, ...], str]:
    """The columns of train: as they were given, for files whose columns have other places."""
    given = (options.text, options.second_text)
    texts, label = tuple(name for name in given if name is not None), options.label
    flags = (*zip(texts, (TEXT_FLAG, SECOND_FLAG)), (label, LABEL_FLAG))
    known = [file.column(name, flag) for name, flag in flags if name is not None]
    if not texts or label is None:
        guessed = guess_columns(
            file, TEXT_FLAG, LABEL_FLAG, known[0] if texts else None, label and known[-1]
        )
        logger.info("%s", guessed.said)
        texts = texts or tuple(filter(None, guessed[:2]))
        label = label or guessed.label
        known = [*texts, label]
    if label is None:
        raise ValueError(
            f"{file.path} has no column whose name says that it is the label; give {LABEL_FLAG}: "
            f"{names_of(file.columns)}"
        )
    if len(set(known)) < len(known):
        raise ValueError(
            f"{file.path}: {', '.join(map(repr, known))} are the columns of text and label, but "
            f"each can have one role only; give {TEXT_FLAG}, {SECOND_FLAG} or {LABEL_FLAG}"
        )
    if options.kind == TAGGING and len(texts) > 1:
        raise ValueError(
            f"--kind {TAGGING} is of one text, not of {texts[0]!r} and {texts[1]!r}; give "
            f"{TEXT_FLAG}"
        )
    return texts, label


def _is_labelled(file: RowFile, label: str, kind: str) -> bool:
    """Whether a test set has the column, and anything in it."""
    try:
        column = file.column(label, LABEL_FLAG)
    except ValueError:
        logger.info("%s has no column %r: a test set without labels", file.path, label)
        return False
    # of multilabel, rows without labels are as good as others
    if kind == MULTILABEL or any(row.values[0] for row in file.rows([column], lambda bad: None)):
        return True
    logger.info("%s has nothing in column %r: a test set without labels", file.path, column)
    return False
