"""Prepares one GLUE task: from the official files to data for fairseq's sentence_prediction."""

import os
from typing import Any

from tupe_fairseq.files.atomic import write_json
from tupe_fairseq.files.fingerprint import content_record
from tupe_fairseq.files.names import REPORT
from tupe_fairseq.glue.glue_tasks import GlueTask
from tupe_fairseq.glue.official import official_files, read_rows
from tupe_fairseq.labelled.prepare_folder import ReadTask, prepare_folder
from tupe_fairseq.labelled.task_rows import TaskRows
from tupe_fairseq.text.pretrain_dir import PretrainDir


def prepare_task(
    task: GlueTask,
    glue_dir: str,
    pretrained: PretrainDir,
    folder: str,
    max_positions: int,
    workers: int = 1,
) -> dict[str, Any]:
    """Write the data folder of a task, unless it is finished.

    Args:
        task (GlueTask): the task.
        glue_dir (str): the folder with the official folders of the tasks.
        pretrained, folder, max_positions, workers: as for :func:`prepare_folder`.
    Returns:
        dict: the content of the folder's report.json.
    Raises:
        OSError: if an official file is missing, or a file cannot be read or written.
        ValueError: if an official file is wrong, or the folder was made from other
            files, or with another vocabulary or settings.
    """
    paths = official_files(task, glue_dir)
    report = prepare_folder(
        task.name,
        {os.path.basename(path): content_record(path) for path in paths.values()},
        lambda: _read(task, paths),
        pretrained,
        folder,
        max_positions,
        workers,
    )
    if report.get("description") is None:  # of version 0.1.0
        report["description"] = task.task.to_record()
        write_json(os.path.join(folder, REPORT), report)
    return report


def _read(task: GlueTask, paths: dict[str, str]) -> ReadTask:
    splits = {split: read_rows(task, split, path) for split, path in paths.items()}
    warnings = _check_labels(task, paths, splits)
    for split, name in task.files.items():
        if split not in paths:
            warnings.append(f"{name} is missing: no {split} split, so no submission for it")
    return ReadTask(task.task, splits, warnings)


def _check_labels(task: GlueTask, paths, splits: dict[str, TaskRows]) -> list[str]:
    """Refuse labels that cannot be learned; warn of classes that do not occur."""
    if task.is_regression:
        return []
    trained, seen = set(splits["train"].labels), set()
    for split, rows in splits.items():
        unknown = sorted(set(rows.labels) - trained)
        if unknown:
            raise ValueError(
                f"{paths[split]} has the label {', '.join(unknown)}, which does not occur "
                f"in {paths['train']} and cannot be learned"
            )
        seen.update(rows.labels)
    return [
        f"class {label} occurs neither in train nor in dev"
        for label in task.labels
        if label not in seen
    ]
