"""The data of a task as tupe-prepare-glue writes it, checked before anything runs."""

import logging
import math
import os
from dataclasses import dataclass
from typing import Dict, List, Tuple

import numpy as np

from tupe_fairseq.checkpoint.contents import symbols_of, vocabulary_version
from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, DICTIONARY, REPORT
from tupe_fairseq.files.record import read_record
from tupe_fairseq.finetune.pretrained import Pretrained
from tupe_fairseq.glue.glue_tasks import STSB_MAX_SCORE, GlueTask
from tupe_fairseq.text.mmap_index import count, first_tokens

logger = logging.getLogger("tupe-finetune")

_REPORT = {"task": str, "max_positions": int, "vocabulary": str, "splits": {str: {"rows": int}}}


@dataclass(frozen=True)
class TaskData:
    """A data folder of one task.

    Args:
        folder (str): OUT/TASK, absolute.
        task (GlueTask): the task.
        max_positions (int): the length in tokens above which its report counts rows as too long.
        vocabulary (str): sha256 of dict.txt.
        rows (dict): split to its number of rows.
    """

    folder: str
    task: GlueTask
    max_positions: int
    vocabulary: str
    rows: Dict[str, int]

    def splits(self, kind: str) -> Tuple[str, ...]:
        """The existing splits of a kind (valid or test), the main one first."""
        names = [name for name in self.task.files if name.rstrip("0123456789") == kind]
        return tuple(name for name in names if name in self.rows)

    def files(self) -> List[str]:
        """All files of the splits, relative to the folder; each has its part in the results."""
        names = []
        for split in self.rows:
            parts = [f"input{number}/{split}" for number in range(len(self.task.texts))]
            if split.startswith("test"):
                names.append(f"{split}.index")
            elif self.task.is_regression:
                names.append(f"label/{split}.label")
            else:
                parts.append(f"label/{split}")
            names += [part + end for part in parts for end in (".bin", ".idx")]
        return names

    def targets(self, split: str) -> np.ndarray:
        """The true classes, or the scores from 0 to 5, in the order of the rows.

        Raises:
            OSError, ValueError: if the labels cannot be read, or their number is not that of the
                rows.
        """
        prefix = os.path.join(self.folder, "label", split)
        if self.task.is_regression:
            targets = _scores(prefix + ".label") * STSB_MAX_SCORE
        else:
            targets = first_tokens(prefix) - len(BUILT_IN_SYMBOLS)
            if len(targets) and not 0 <= targets.min() <= targets.max() < self.task.num_classes:
                raise ValueError(f"{prefix}.bin has labels that label/dict.txt does not list")
        if len(targets) != self.rows[split]:
            raise ValueError(f"{prefix} has {len(targets)} labels for {self.rows[split]} rows")
        return targets

    def test_index(self, split: str) -> List[str]:
        """The official index of each row of a test split.

        Raises:
            OSError, ValueError: if it cannot be read, or a submission cannot be written with it.
        """
        path = os.path.join(self.folder, f"{split}.index")
        index = _lines(path)
        if len(index) != self.rows[split] or len(set(index)) != len(index):
            raise ValueError(
                f"{path} has {len(index)} lines, {len(set(index))} of them different, for "
                f"{self.rows[split]} rows; prepare the task again"
            )
        return index


def read_task_data(folder: str, task: GlueTask) -> TaskData:
    """Read OUT/TASK and check that it is finished and complete.

    Raises:
        FileNotFoundError: if it is missing or unfinished.
        ValueError: if it is of another task, or its files do not match.
    """
    report_path = os.path.join(folder, REPORT)
    if not os.path.isfile(report_path):
        raise FileNotFoundError(
            f"--data {folder} has no report.json: it is not a finished folder of tupe-prepare-glue"
        )
    try:
        report = read_record(report_path, _REPORT)
    except ValueError as error:
        raise ValueError(f"{error}; prepare the task again") from error
    if report["task"] != task.name:
        raise ValueError(
            f"--data {folder} is for the task {report['task']}, but --task is {task.name}"
        )
    unknown = [split for split in report["splits"] if split not in task.files]
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


def _check(data: TaskData) -> None:
    dictionary = os.path.join(data.folder, "input0", DICTIONARY)
    if file_sha256(dictionary) != data.vocabulary:
        raise ValueError(
            f"{dictionary} has changed since tupe-prepare-glue wrote it; prepare the task again"
        )
    for name in data.files():
        if not os.path.isfile(os.path.join(data.folder, name)):
            raise FileNotFoundError(f"{data.folder}/{name} is missing; prepare the task again")
    for split in data.task.files:
        if not split.startswith("test") and data.rows.get(split, 0) < 2:
            raise ValueError(
                f"--data {data.folder} has {data.rows.get(split, 0)} rows in {split}; "
                "fine-tuning needs two or more"
            )
    for split, rows in data.rows.items():
        for side in ("input0", "input1")[: len(data.task.texts)]:
            sentences, _ = count(os.path.join(data.folder, side, split))
            if sentences != rows:
                raise ValueError(
                    f"{data.folder}/{side}/{split} has {sentences} sentences, but "
                    f"report.json says {rows}; prepare the task again"
                )
    if not data.task.is_regression:
        lines = _lines(os.path.join(data.folder, "label", DICTIONARY))
        labels = tuple(line.rpartition(" ")[0] for line in lines)
        if labels[: len(data.task.labels)] != data.task.labels:
            raise ValueError(
                f"{data.folder}/label/dict.txt lists {', '.join(labels)}; the classes of "
                f"{data.task.name} are {', '.join(data.task.labels)}, in this order"
            )
    # now, and not when the folder of the runs has been made for these files, or all runs are done
    for split in data.rows:
        (data.test_index if split.startswith("test") else data.targets)(split)


def _lines(path: str) -> List[str]:
    """The lines of a text, which only line feeds separate; refused by name if it is none."""
    with open(path, encoding="utf-8", newline="") as file:
        try:
            lines = file.read().split("\n")
        except ValueError as error:
            raise ValueError(f"{path} is not a text in UTF-8; prepare the task again") from error
    return lines if lines[-1] else lines[:-1]


def _scores(path: str) -> np.ndarray:
    """The finite number on each line."""
    scores = []
    for number, line in enumerate(_lines(path), start=1):
        try:
            scores.append(float(line))
        except ValueError:
            scores.append(math.nan)
        if not math.isfinite(scores[-1]):
            raise ValueError(
                f"line {number} of {path} is {line!r}, not a score; prepare the task again"
            )
    return np.array(scores)


def check_together(data: TaskData, model: Pretrained) -> None:
    """Refuse data that was not prepared for the model.

    Raises:
        ValueError: if the vocabulary differs.
    """
    symbols = symbols_of(_lines(os.path.join(data.folder, "input0", DICTIONARY)))
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
