"""Reads the official GLUE files: tab-separated fields without quoting, one row per line."""

import os
from collections.abc import Iterator

from tupe_fairseq.glue.glue_tasks import STSB_MAX_SCORE, GlueTask
from tupe_fairseq.labelled.task_rows import TaskRows
from tupe_fairseq.text.not_text import refuse_wide_encodings

_SAMPLE_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def official_files(task: GlueTask, glue_dir: str) -> dict[str, str]:
    """The task's files, split to path; missing test sets are left out.

    Raises:
        FileNotFoundError: if the folder, or a train or dev file, is missing.
    """
    folder = os.path.join(glue_dir, task.name)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{folder} is missing: the official folder of task {task.name}")
    paths = {split: os.path.join(folder, name) for split, name in task.files.items()}
    found = {split: path for split, path in paths.items() if os.path.isfile(path)}
    for split, path in paths.items():
        if split not in found and not split.startswith("test"):
            raise FileNotFoundError(f"{path} is missing: task {task.name} lacks its {split} split")
    return found


def read_rows(task: GlueTask, split: str, path: str) -> TaskRows:
    """Read one file.

    Train and dev lines with too few fields are dropped and counted. Test rows are all kept,
    because the official count of predictions depends on it; their missing texts are empty.
    Bytes that are not UTF-8 are replaced.

    Args:
        task (GlueTask): the task.
        split (str): train, valid, test, ... of ``task.files``.
        path (str): the file.
    Raises:
        OSError: if the file cannot be read.
        ValueError: if the file is no text, is empty, lacks a column, or holds an unknown label or a
            score outside its range; the message has the line number.
    """
    is_test = split.startswith("test")
    columns = (is_test and task.test_texts) or task.texts
    label_column = (split.startswith("valid") and task.dev_label) or task.label
    needed = max(columns) if is_test else max(*columns, label_column)
    exact = None if is_test else task.fields
    with open(path, "rb") as file:
        refuse_wide_encodings(path, file.read(_SAMPLE_BYTES))
    rows, widest, has_index = TaskRows(), 0, False
    for number, line in _lines(path):
        fields, sound = _fields(line)
        if number == 1 and (is_test or task.header):
            _check_header(task, path, fields, needed, None if is_test else label_column)
            has_index = fields[0] in ("index", "id")
            continue
        rows.read += 1
        widest = max(widest, len(fields))
        broken = len(fields) < needed or (exact and len(fields) != exact)
        if broken:
            reason = f"not {exact} fields" if exact else f"fewer than {needed} fields"
            if not is_test:
                rows.dropped[reason] += 1
                continue
            rows.warnings[reason] += 1
            fields += [""] * (needed - len(fields))
        if is_test:
            given = has_index and (fields[0].isdigit() or not broken)
            rows.index.append(fields[0] if given else str(rows.read - 1))
        else:
            label = fields[label_column - 1].strip()
            if label == task.no_label:
                rows.dropped[f"label {label}"] += 1
                continue
            _check_label(task, label, f"{path}, line {number}")
            rows.labels.append(label)
        if not sound:
            rows.warnings["invalid UTF-8"] += 1
        rows.add_texts([fields[column - 1] for column in columns])
    if not rows.read:
        raise ValueError(f"{path} is empty: it has no rows")
    # predictions under such an index could not be told apart, or have no line of their own
    repeated = len(rows.index) - len(set(rows.index))
    unfit = sum(not _is_fit(number) for number in rows.index)
    for problem, count in (("repeated", repeated), ("empty or broken", unfit)):
        if count:
            rows.warnings[f"{problem} index, so rows are numbered from 0"] += count
            rows.index = [str(row) for row in range(rows.read)]
    if widest < needed:
        raise ValueError(
            f"{path}: missing column {needed}: no line has more than {widest} tab-separated fields"
        )
    if not rows.texts:
        raise ValueError(f"{path}: none of the {rows.read} rows can be used: {dict(rows.dropped)}")
    return rows


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    """The lines, numbered from 1; only line feeds end one, and blank ends are skipped."""
    blank = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            line = line[:-1] if line.endswith(b"\n") else line
            line = line[:-1] if line.endswith(b"\r") else line
            if number == 1 and line.startswith(_BYTE_ORDER_MARK):
                line = line[len(_BYTE_ORDER_MARK) :]
            if not line:
                blank += 1
                continue
            yield from ((number - before, b"") for before in range(blank, 0, -1))
            blank = 0
            yield number, line


def _fields(line: bytes) -> tuple[list[str], bool]:
    """The fields of a line, and whether the line was UTF-8."""
    try:
        return line.decode("utf-8").split("\t"), True
    except UnicodeDecodeError:
        return line.decode("utf-8", errors="replace").split("\t"), False


def _is_fit(index: str) -> bool:
    """Whether it can stand in a column of a submission: no spaces, line ends or the like."""
    return index != "" and index.isprintable() and " " not in index


def _check_header(task, path, fields, needed, label_column) -> None:
    if len(fields) < needed:
        role = "the label" if needed == label_column else "a text"
        raise ValueError(
            f"{path}: missing column {needed}, from which {role} of {task.name} is "
            f"read; the header has {len(fields)}: {_short(', '.join(fields), 300)}"
        )
    if label_column is None:
        is_row = fields[0].isdigit()
    else:
        is_row = fields[label_column - 1] in task.labels
        is_row = is_row or (task.is_regression and _is_score(fields[label_column - 1]))
    if is_row:
        raise ValueError(
            f"{path}: the header is missing; line 1 is a row: {_short(', '.join(fields), 100)}"
        )


def _check_label(task, label, where) -> None:
    if task.is_regression:
        if not _is_score(label):
            raise ValueError(
                f"{where}: the score {_short(label)!r} is not a number from 0 to {STSB_MAX_SCORE:g}"
            )
    elif label not in task.labels:
        raise ValueError(
            f"{where}: unknown label {_short(label)!r}; the labels of {task.name} are "
            f"{', '.join(task.labels)}"
        )


def _is_score(text: str) -> bool:
    try:
        return 0.0 <= float(text) <= STSB_MAX_SCORE
    except ValueError:
        return False


def _short(text: str, characters: int = 50) -> str:
    return text if len(text) <= characters else text[:characters] + "..."
