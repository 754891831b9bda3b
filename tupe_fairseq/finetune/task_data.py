"""Reads the data of a task as its preparation left it, and checks it before anything runs."""

import logging
import os
from typing import Any

from tupe_fairseq.checkpoint.state_dict import symbols_of, vocabulary_version
from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.files.names import DICTIONARY
from tupe_fairseq.files.record import read_record
from tupe_fairseq.finetune.label_files import text_lines
from tupe_fairseq.finetune.prepared_folder import check_is_prepared
from tupe_fairseq.finetune.pretrained import Pretrained
from tupe_fairseq.finetune.task_folder import TaskData
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS
from tupe_fairseq.labelled.labels import label_symbol
from tupe_fairseq.labelled.task_description import KINDS, RECORD, Task
from tupe_fairseq.labelled.task_report import task_of
from tupe_fairseq.text.mmap_index import checked_count

logger = logging.getLogger("tupe-finetune")

_REPORT = {
    "task": str,
    "description": (RECORD, None),
    "max_positions": int,
    "vocabulary": str,
    "splits": {str: {"rows": int}},
}
# beside the folders of the tasks
_TAKEN = ("", ".", "..", "submission")


def read_task_data(folder: str, name: str | None = None) -> TaskData:
    """Read a task's data folder and check that it is finished and complete.

    Args:
        folder (str): OUT/TASK.
        name (str, optional): the task that it must be of.
    Raises:
        FileNotFoundError: if it is missing or unfinished.
        ValueError: if it is of another task, or its files do not match.
    """
    report_path = check_is_prepared(folder)
    try:
        report = read_record(report_path, _REPORT)
        task = _task(report, report_path)
    except ValueError as error:
        raise ValueError(f"{error}; prepare the task again") from error
    if name not in (None, task.name):
        raise ValueError(f"--data {folder} is for the task {task.name}, but --task is {name}")
    unknown = [split for split in report["splits"] if split not in task.splits]
    if unknown:
        raise ValueError(f"{report_path} lists {unknown[0]!r}, which is not a split of {task.name}")
    data = TaskData(
        os.path.abspath(folder),
        task,
        report["max_positions"],
        report["vocabulary"],
        {split: counts["rows"] for split, counts in report["splits"].items()},
    )
    _check(data)
    return data


def _task(report: dict[str, Any], path: str) -> Task:
    """The task of a report; version 0.1.0 described GLUE's by their names alone."""
    if report.get("description") is None and report["task"] in GLUE_TASKS:
        return GLUE_TASKS[report["task"]].task
    task = task_of(report, path)
    is_whole = (
        task.kind in KINDS
        and task.texts in (1, 2)
        and (task.scale is not None if task.is_regression else len(task.labels) > 0)
        and (not task.benchmark or task.name in GLUE_TASKS)
    )
    if not is_whole:
        raise ValueError(f"{path} is damaged, or of another program: description is of no task")
    if task.name in _TAKEN or os.path.basename(task.name) != task.name:
        raise ValueError(f"{path}: {task.name!r} cannot be the name of a folder of runs")
    return task


def _check(data: TaskData) -> None:
    dictionary = os.path.join(data.folder, "input0", DICTIONARY)
    if file_sha256(dictionary) != data.vocabulary:
        raise ValueError(
            f"{dictionary} has changed since tupe-prepare-glue or tupe-prepare-task wrote it; "
            "prepare the task again"
        )
    for name in data.files():
        if not os.path.isfile(os.path.join(data.folder, name)):
            raise FileNotFoundError(f"{data.folder}/{name} is missing; prepare the task again")
    needed = [split for split in data.task.splits if not split.startswith("test")]
    for split in dict.fromkeys(["train", "valid", *needed]):
        if data.rows.get(split, 0) < 2:
            raise ValueError(
                f"--data {data.folder} has {data.rows.get(split, 0)} rows in {split}; "
                "fine-tuning needs two or more"
            )
    symbols = len(symbols_of(text_lines(dictionary)))
    for split, rows in data.rows.items():
        for side in ("input0", "input1")[: data.task.texts]:
            sentences = _count(os.path.join(data.folder, side, split), symbols)
            if sentences != rows:
                raise ValueError(
                    f"{data.folder}/{side}/{split} has {sentences} sentences, but "
                    f"report.json says {rows}; prepare the task again"
                )
    if not data.task.is_regression:
        lines = text_lines(os.path.join(data.folder, "label", DICTIONARY))
        labels = tuple(line.rpartition(" ")[0] for line in lines)
        symbols = tuple(map(label_symbol, data.task.labels))
        if labels[: len(symbols)] != symbols:
            raise ValueError(
                f"{data.folder}/label/dict.txt lists {', '.join(labels)}; the classes of "
                f"{data.task.name} are {', '.join(symbols)}, in this order"
            )
    # now, and not when the folder of the runs has been made for these files, or all runs are done
    for split in data.rows:
        data.check_answers(split)


def _count(prefix: str, symbols: int) -> int:
    try:
        return checked_count(prefix, symbols)
    except ValueError as error:
        raise ValueError(f"{error}; prepare the task again") from error


def check_together(data: TaskData, model: Pretrained) -> None:
    """Refuse data that was not prepared for the model.

    Raises:
        ValueError: if the vocabulary differs.
    """
    symbols = symbols_of(text_lines(os.path.join(data.folder, "input0", DICTIONARY)))
    if len(symbols) != model.vocabulary_size:
        raise ValueError(
            f"the word embedding of --checkpoint {model.path} has {model.vocabulary_size} rows, "
            f"but the dictionary of --data {data.folder} has {len(symbols)} symbols; prepare the "
            "data with the --pretrain-dir that the checkpoint was trained on"
        )
    version = int(vocabulary_version(symbols))
    if model.vocabulary_version not in (None, version):
        raise ValueError(
            f"--checkpoint {model.path} was trained with a different vocabulary than that "
            f"of --data {data.folder} (of the same size); prepare the data with the --pretrain-dir "
            "that the checkpoint was trained on"
        )
    if data.max_positions != model.max_positions:
        logger.info(
            "--data was prepared with --max-positions %d, but the model has %d: longer "
            "rows are truncated to the model's, and counted in train.log",
            data.max_positions,
            model.max_positions,
        )
