"""The nine GLUE tasks: official files in, official submissions out."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tupe_fairseq.data.text_files import read_lines
from tupe_fairseq.files import atomic_write
from tupe_fairseq.kinds import kind_of_head
from tupe_fairseq.kinds.base import is_number
from tupe_fairseq.labelled.task import Task, TaskRows

# of STS-B, whose scores begin at 0
_MAX_SCORE = 5.0


@dataclass(frozen=True, kw_only=True)
class GlueTask(Task):
    """A task and the layout of its official files; columns count from 1."""

    columns: tuple[int, ...]  # of the sentence, or of both sentences
    label: int  # the column of the label
    files: dict[str, str]  # of each split, in fairseq's order
    header: bool = True  # whether train.tsv and dev.tsv have a header; test.tsv always has one
    dev_label: int | None = None  # the column of the label in dev.tsv, if different
    test_columns: tuple[int, ...] | None = None  # of the sentences in test.tsv, if different
    fields: int | None = None  # their exact number in train.tsv and dev.tsv; others are dropped
    no_label: str | None = None  # marks a row without a label, which is dropped
    submissions: dict[str, str] = field(default_factory=dict)  # file names, if not NAME.tsv

    def submission(self, split: str) -> str:
        """The file name of the predictions for a test split."""
        return self.submissions.get(split, f"{self.name}.tsv")


_FILES = {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"}
_MNLI_FILES = {
    "train": "train.tsv",
    "valid": "dev_matched.tsv",
    "valid1": "dev_mismatched.tsv",
    "test": "test_matched.tsv",
    "test1": "test_mismatched.tsv",
}


def _task(name: str, columns: tuple[int, ...], label: int, files=_FILES, **more: Any) -> GlueTask:
    """By default two classes, 0 and 1, and accuracy."""
    more = {"labels": ("0", "1"), "metrics": ("accuracy",), "selection": "accuracy", **more}
    kind = kind_of_head(len(more["labels"]) or 1)
    of_files = {"columns": columns, "label": label, "files": files, "splits": tuple(files)}
    return GlueTask(name=name, kind=kind, texts=len(columns), benchmark="GLUE", **of_files, **more)


_ENTAILMENT = ("entailment", "not_entailment")
_F1 = {"metrics": ("f1", "accuracy"), "selection": "acc_and_f1"}
_CORRELATION = {"metrics": ("pearson", "spearman"), "selection": "pearson_and_spearman"}
_TASKS = (
    _task("CoLA", (4,), 2, metrics=("mcc",), selection="mcc", header=False, test_columns=(2,)),
    _task("SST-2", (1,), 2, test_columns=(2,)),
    _task("MRPC", (4, 5), 1, **_F1),
    _task("STS-B", (8, 9), 10, labels=(), scale=(0.0, _MAX_SCORE), **_CORRELATION),
    _task("QQP", (4, 5), 6, epochs=5, test_columns=(2, 3), fields=6, **_F1),
    _task(
        "MNLI",
        (9, 10),
        12,
        _MNLI_FILES,
        labels=("contradiction", "entailment", "neutral"),
        epochs=5,
        dev_label=16,
        no_label="-",
        submissions={"test": "MNLI-m.tsv", "test1": "MNLI-mm.tsv"},
    ),
    _task("QNLI", (2, 3), 4, labels=_ENTAILMENT, epochs=5),
    _task("RTE", (2, 3), 4, labels=_ENTAILMENT),
    _task("WNLI", (2, 3), 4),
)
GLUE_TASKS = {task.name: task for task in _TASKS}


def official_files(task: GlueTask, glue_dir: str) -> dict[str, str]:
    """The path of each split's file; test sets may be missing."""
    paths = {split: os.path.join(glue_dir, task.name, file) for split, file in task.files.items()}
    for split, path in paths.items():
        if not split.startswith("test") and not os.path.isfile(path):
            raise FileNotFoundError(f"{path} is missing, the {split} split of {task.name}")
    return {split: path for split, path in paths.items() if os.path.isfile(path)}


def read_glue(task: GlueTask, split: str, path: str) -> TaskRows:
    """Read an official file, separated by tabs; quotes have no meaning.

    Unusable rows of train and dev are dropped and counted. All rows of test are kept, because each
    needs a prediction; missing texts become empty.
    """
    is_test = split.startswith("test")
    columns = (is_test and task.test_columns) or task.columns
    label = (split.startswith("valid") and task.dev_label) or task.label
    needed = max(columns) if is_test else max(*columns, label)
    exact = None if is_test else task.fields
    rows, has_index = TaskRows(), False
    lines = "\n".join(read_lines(path)).rstrip("\r\n").split("\n")  # no blank ones at the end
    for number, line in enumerate(lines, 1):
        fields = line.removesuffix("\r").split("\t")
        if number == 1 and (is_test or task.header):
            if len(fields) < needed:
                raise ValueError(f"{path}: no column {needed}; the header has {len(fields)}")
            if fields[0].isdigit() if is_test else _is_label(task, fields[label - 1]):
                raise ValueError(f"{path}: the header is missing; line 1 is a row")
            has_index = fields[0] in ("index", "id")
            continue
        index, value = str(rows.read), None
        if len(fields) < needed or (exact and len(fields) != exact):
            reason = f"not {exact} fields" if exact else f"fewer than {needed} fields"
            (rows.warnings if is_test else rows.dropped)[reason] += 1
            if not is_test:
                continue
            fields += [""] * (needed - len(fields))
        if is_test:
            index = fields[0] if has_index and fields[0].isdigit() else index
        else:
            value = fields[label - 1].strip()
            if value == task.no_label:
                rows.dropped[f"label {value}"] += 1
                continue
            if not _is_label(task, value):
                allowed = ", ".join(task.labels) or f"numbers from 0 to {_MAX_SCORE:g}"
                raise ValueError(
                    f"{path}, line {number}: unknown label {value[:50]!r}; the labels of "
                    f"{task.name} are {allowed}"
                )
        rows.add([fields[column - 1] for column in columns], value, index)
    twice = [number for number, count in Counter(rows.index).items() if count > 1]
    if twice:
        raise ValueError(f"{path} has two rows with the index {twice[0]}, which the server refuses")
    if not rows.texts:
        raise ValueError(
            f"{path}: none of the {rows.read} rows can be used: {dict(rows.dropped) or 'empty'}"
        )
    return rows


def _is_label(task: GlueTask, text: str) -> bool:
    if task.labels:
        return text in task.labels
    return is_number(text) and 0 <= float(text) <= _MAX_SCORE


def write_submission(
    folder: str, task: GlueTask, split: str, index: Sequence[str], predictions: Sequence
) -> str:
    """Write the submission of a test split and return its path; scores are clipped to 0 .. 5."""
    if not task.labels:
        values = [f"{min(max(float(score), 0.0), _MAX_SCORE):.3f}" for score in predictions]
    else:
        values = [task.labels[int(label)] for label in predictions]
    path = os.path.join(folder, task.submission(split))
    with atomic_write(path) as file:
        file.write("index\tprediction\n")
        file.writelines(
            f"{number}\t{answer}\n" for number, answer in zip(index, values, strict=True)
        )
    return path
