"""Writes the data folder of a task, from rows that were read to what fairseq loads."""

import logging
import os
import shutil
from collections.abc import Callable
from typing import Any, NamedTuple

from tqdm import tqdm

from tupe_fairseq.files.atomic import atomic_copy, atomic_write, write_json
from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.files.names import DICTIONARY, REPORT
from tupe_fairseq.files.steps import Steps
from tupe_fairseq.labelled.encode_rows import encode_rows
from tupe_fairseq.labelled.task_description import Task
from tupe_fairseq.labelled.task_report import read_task_report
from tupe_fairseq.labelled.task_rows import TaskRows
from tupe_fairseq.labelled.write_labels import write_labels
from tupe_fairseq.text.pretrain_dir import PretrainDir

logger = logging.getLogger(__name__)


class ReadTask(NamedTuple):
    """A task whose files were read.

    Args:
        task (Task): what is learned.
        splits (dict): split to its rows.
        warnings (list of str): for the report.
    """

    task: Task
    splits: dict[str, TaskRows]
    warnings: list[str]


def prepare_folder(
    name: str,
    sources: dict[str, Any],
    read: Callable[[], ReadTask],
    pretrained: PretrainDir,
    folder: str,
    max_positions: int,
    workers: int = 1,
) -> dict[str, Any]:
    """Write the data folder of a task, unless it is finished.

    Args:
        name (str): of the task.
        sources (dict): all that the rows depend on, such as hashes of their files; JSON values.
        read (callable): reads the files, and refuses what cannot be learned; it is not called for a
            finished folder.
        pretrained (PretrainDir): vocabulary and text treatment.
        folder (str): the task's output folder.
        max_positions (int): the length in tokens above which rows are counted as too long.
        workers (int): processes that split long tasks into pieces.
    Returns:
        dict: the content of the folder's report.json.
    Raises:
        OSError: if a file cannot be read or written.
        ValueError: if ``read`` raises it, or the folder was made from other files, or with another
            vocabulary or settings.
    """
    settings = {
        "task": name,
        "vocabulary": pretrained.vocabulary,
        **{file: file_sha256(path) for file, path in pretrained.files.items()},
        "text treatment": pretrained.treatment.to_dict(),
        "max_positions": max_positions,
        **sources,
    }
    steps = Steps(folder, settings)
    if steps.result("prepared", bool):
        logger.info("%s is already finished; skipped", folder)
        return read_task_report(folder)
    task, splits, warnings = read()
    # Marks the folder as ours in case of an interruption. Only now, so that files
    # that were refused can be corrected.
    steps.finish("begun", True)
    counts = {split: len(rows.texts) for split, rows in splits.items()}
    logger.info("%s: encoding %d rows; large tasks take minutes", name, sum(counts.values()))
    work = os.path.join(folder, "work")
    shutil.rmtree(work, ignore_errors=True)
    with _progress(task.texts * sum(counts.values())) as bar:
        parts = {
            split: encode_rows(
                task, rows, pretrained, work, split, max_positions, workers, bar.update
            )
            for split, rows in splits.items()
        }
    report = {
        "task": name,
        "description": task.to_record(),
        "text_treatment": pretrained.treatment.to_dict(),
        "vocabulary": pretrained.vocabulary,
        "vocabulary_kind": pretrained.kind,
        "max_positions": max_positions,
        "splits": parts,
        "warnings": warnings,
    }
    write_labels(task, splits, os.path.join(work, "label"))
    inputs = [f"input{number}" for number in range(task.texts)]
    for name in inputs:
        shutil.copyfile(pretrained.dictionary, os.path.join(work, name, DICTIONARY))
    for name in (*inputs, "label"):
        _replace_folder(os.path.join(work, name), os.path.join(folder, name))
    for split, rows in splits.items():
        if rows.index:
            with atomic_write(os.path.join(folder, f"{split}.index")) as file:
                file.writelines(f"{index}\n" for index in rows.index)
    atomic_copy(pretrained.dictionary, os.path.join(folder, DICTIONARY))
    for path in pretrained.files.values():
        atomic_copy(path, os.path.join(folder, os.path.basename(path)))
    shutil.rmtree(work)
    write_json(os.path.join(folder, REPORT), report)
    steps.finish("prepared", True)
    return report


def _progress(texts: int) -> tqdm:
    return tqdm(
        desc="encoding", total=texts, unit="texts", unit_scale=True, disable=None, leave=False
    )


def _replace_folder(source: str, target: str) -> None:
    shutil.rmtree(target, ignore_errors=True)
    os.replace(source, target)
