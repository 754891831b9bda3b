"""Prepares one GLUE task: from the official files to data for fairseq's sentence_prediction."""

import logging
import os
import shutil
from collections import Counter
from typing import Any, Dict, List

from tupe_fairseq.files.atomic import atomic_write, write_json
from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.files.names import DICTIONARY, REPORT
from tupe_fairseq.files.steps import Steps
from tupe_fairseq.glue.glue_tasks import STSB_MAX_SCORE, GlueTask
from tupe_fairseq.glue.official import OfficialRows, official_files, read_rows
from tupe_fairseq.tasks.task_report import read_task_report
from tupe_fairseq.text.binarize import binarize
from tupe_fairseq.text.pretrain_dir import PretrainDir

logger = logging.getLogger("tupe-prepare-glue")

# Texts encoded at a time: enough to be fast, few enough to bound memory.
_BATCH = 10_000
# With fewer rows for each process of fairseq-preprocess, starting it costs more than it saves.
_ROWS_PER_WORKER = 10_000


def prepare_task(
    task: GlueTask,
    glue_dir: str,
    pretrained: PretrainDir,
    folder: str,
    max_positions: int,
    workers: int = 1,
) -> Dict[str, Any]:
    """Write the data folder of a task, unless it is finished.

    Args:
        task (GlueTask): the task.
        glue_dir (str): the folder with the official folders of the tasks.
        pretrained (PretrainDir): vocabulary and text treatment.
        folder (str): the task's output folder.
        max_positions (int): the length in tokens above which rows are counted as too long.
        workers (int): processes of fairseq-preprocess.
    Returns:
        dict: the content of the folder's report.json.
    Raises:
        OSError: if an official file is missing, or a file cannot be read or written.
        ValueError: if an official file is wrong, or the folder was made from other
            files, or with another vocabulary or settings.
    """
    paths = official_files(task, glue_dir)
    settings = {
        "task": task.name,
        "vocabulary": pretrained.vocabulary,
        **{name: file_sha256(path) for name, path in pretrained.files.items()},
        "text treatment": pretrained.treatment.to_dict(),
        "max_positions": max_positions,
    }
    for path in paths.values():
        settings[os.path.basename(path)] = f"{os.path.getsize(path)} bytes, {file_sha256(path)}"
    steps = Steps(folder, settings)
    if steps.result("prepared", bool):
        logger.info("%s is already finished; skipped", folder)
        return read_task_report(folder)
    splits = {split: read_rows(task, split, path) for split, path in paths.items()}
    warnings = _check_labels(task, paths, splits)
    for split, name in task.files.items():
        if split not in paths:
            warnings.append(f"{name} is missing: no {split} split, so no submission for it")
    # Marks the folder as ours in case of an interruption. Only now, so that files
    # that were refused can be corrected.
    steps.finish("begun", True)
    counts = {split: len(rows.texts) for split, rows in splits.items()}
    logger.info("%s: encoding %d rows; large tasks take minutes", task.name, sum(counts.values()))
    work = os.path.join(folder, "work")
    shutil.rmtree(work, ignore_errors=True)
    report = {
        "task": task.name,
        "description": task.task.to_record(),
        "text_treatment": pretrained.treatment.to_dict(),
        "vocabulary": pretrained.vocabulary,
        "vocabulary_kind": pretrained.kind,
        "max_positions": max_positions,
        "splits": {
            split: _encode(task, rows, pretrained, os.path.join(work, split), max_positions)
            for split, rows in splits.items()
        },
        "warnings": warnings,
    }
    workers = max(1, min(workers, max(counts.values()) // _ROWS_PER_WORKER))
    _binarize_texts(task, pretrained, counts, work, folder, workers)
    _write_labels(task, splits, work, folder, workers)
    for split, rows in splits.items():
        if rows.index:
            with atomic_write(os.path.join(folder, f"{split}.index")) as file:
                file.writelines(f"{index}\n" for index in rows.index)
    shutil.copyfile(pretrained.dictionary, os.path.join(folder, DICTIONARY))
    for path in pretrained.files.values():
        shutil.copyfile(path, os.path.join(folder, os.path.basename(path)))
    shutil.rmtree(work)
    write_json(os.path.join(folder, REPORT), report)
    steps.finish("prepared", True)
    return report


def _check_labels(task: GlueTask, paths, splits: Dict[str, OfficialRows]) -> List[str]:
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


def _encode(task, rows: OfficialRows, pretrained, prefix, max_positions) -> Dict[str, Any]:
    """Write PREFIX.input0 (and .input1) as pieces; returns the split's part of the report."""
    lengths = [0] * len(rows.texts)
    tokens = unknown = 0
    for number in range(len(task.texts)):
        with atomic_write(f"{prefix}.input{number}") as file:
            for start in range(0, len(rows.texts), _BATCH):
                texts = [texts[number] for texts in rows.texts[start : start + _BATCH]]
                texts = [pretrained.treatment.apply(text) for text in texts]
                for row, ids in enumerate(pretrained.pieces.encode(texts), start):
                    file.write(pretrained.pieces.to_text(ids) + "\n")
                    lengths[row] += len(ids) + 2  # <s> a </s>, then </s> b </s>
                    tokens += len(ids)
                    unknown += ids.count(pretrained.pieces.unknown_id)
    too_long = sum(length > max_positions or row in rows.cut for row, length in enumerate(lengths))
    return {
        "rows_read": rows.read,
        "rows": len(rows.texts),
        "dropped": dict(rows.dropped),
        "warnings": dict(rows.warnings),
        "labels": _label_counts(task, rows.labels),
        "unknown_rate": unknown / max(1, tokens),
        "too_long": too_long,
    }


def _label_counts(task: GlueTask, labels: List[str]) -> Dict[str, int]:
    """How often each class occurs; for scores, how many are in each unit interval."""
    if not labels:
        return {}
    if not task.is_regression:
        return {label: labels.count(label) for label in task.labels}
    top = int(STSB_MAX_SCORE) - 1
    counts = Counter(min(int(float(label)), top) for label in labels)
    return {f"{low} to {low + 1}": counts[low] for low in range(top + 1)}


def _binarize_texts(task, pretrained, counts, work, folder, workers) -> None:
    """Write input0/ and input1/, in one call, since starting fairseq takes seconds."""
    inputs = [f"input{number}" for number in range(len(task.texts))]
    texts = {f"{name}/{split}": f"{work}/{split}.{name}" for name in inputs for split in counts}
    expected = {name: counts[os.path.basename(name)] for name in texts}
    binarize(pretrained.dictionary, texts, os.path.join(work, "texts"), expected, workers)
    for name in inputs:
        shutil.copyfile(pretrained.dictionary, os.path.join(work, "texts", name, DICTIONARY))
        _replace_folder(os.path.join(work, "texts", name), os.path.join(folder, name))


def _write_labels(task, splits: Dict[str, OfficialRows], work, folder, workers) -> None:
    """Write label/: classes in the order of the task, or scores divided by the highest."""
    labelled = {split: rows.labels for split, rows in splits.items() if rows.labels}
    ready = os.path.join(work, "label")
    if task.is_regression:
        for split, labels in labelled.items():
            with atomic_write(os.path.join(ready, f"{split}.label")) as file:
                file.writelines(f"{float(label) / STSB_MAX_SCORE!r}\n" for label in labels)
    else:
        dictionary = os.path.join(work, "labels.txt")
        with atomic_write(dictionary) as file:
            counts = Counter(labelled["train"])
            file.writelines(f"{label} {counts[label]}\n" for label in task.labels)
        for split, labels in labelled.items():
            with atomic_write(os.path.join(work, f"{split}.label")) as file:
                file.writelines(label + "\n" for label in labels)
        texts = {split: os.path.join(work, f"{split}.label") for split in labelled}
        expected = {split: len(labels) for split, labels in labelled.items()}
        binarize(dictionary, texts, ready, expected, workers)
    _replace_folder(ready, os.path.join(folder, "label"))


def _replace_folder(source: str, target: str) -> None:
    shutil.rmtree(target, ignore_errors=True)
    os.replace(source, target)
