"""The data folder of a task, as tupe-prepare-glue and tupe-prepare-task write it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tupe_fairseq.checkpoint.checkpoint import loading, symbols_of
from tupe_fairseq.checkpoint.fit import check_vocabulary
from tupe_fairseq.checkpoint.model import Model
from tupe_fairseq.data.dictionary import DICTIONARY, PAD, SPECIAL_TOKENS, UNK
from tupe_fairseq.data.indexed import read_sentences
from tupe_fairseq.data.task import REPORT, Task
from tupe_fairseq.data.text_files import read_lines
from tupe_fairseq.data.truncation import windows
from tupe_fairseq.files import file_sha256, read_json

#: int64 (N,) classes, float64 (N,) scores, bool (N, C) labels; for tagging N arrays int64 (words,)
Labels = np.ndarray | list[Any]


@dataclass(frozen=True)
class TaskData:
    """A data folder."""

    folder: str  # absolute
    task: Task
    vocabulary: str  # sha256 of dict.txt
    rows: dict[str, int]  # of each split
    files: list[str]  # of the splits, relative to the folder

    @classmethod
    def load_folds(cls, folder: str) -> list["TaskData"]:
        """Load each fold, or a folder without folds as the only item."""
        folds = read_json(os.path.join(folder, REPORT)).get("folds", ["."])
        return [cls.load(os.path.normpath(os.path.join(folder, fold))) for fold in folds]

    @classmethod
    def load(cls, folder: str) -> "TaskData":
        """Read report.json; the folder must be complete."""
        report = read_json(os.path.join(folder, REPORT))
        if "folds" in report:
            one = os.path.join(folder, report["folds"][0])
            raise ValueError(f"{folder} has folds; give one, such as {one}, or prepare it without")
        try:
            task = Task.from_record(report["description"], os.path.join(folder, REPORT))
            rows = {split: counts["rows"] for split, counts in report["splits"].items()}
            files = [
                name
                for name in report["files"]
                if name.endswith((".bin", ".idx", ".label"))
                or (task.benchmark and name.startswith("test"))  # the official numbers of rows
            ]
            vocabulary = report["vocabulary"]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"--data {folder} is not of tupe-prepare-glue or tupe-prepare-task: its "
                f"report.json has no {error}"
            ) from error
        data = cls(os.path.abspath(folder), task, vocabulary, rows, files)
        for name in files:
            if not os.path.isfile(os.path.join(folder, name)):
                raise FileNotFoundError(f"{folder}/{name} is missing; prepare the task again")
        if data.sha256(f"input0/{DICTIONARY}") != vocabulary:
            raise ValueError(f"{folder}/input0/{DICTIONARY} has changed; prepare the task again")
        for split in ("train", "valid"):  # with one row correlations are nan, as if a run diverged
            if (number := rows.get(split, 0)) < 2:
                raise ValueError(f"--data {folder} has {number} rows in {split}, below 2")
        return data

    def check_vocabulary(self, model: Model) -> None:
        """Refuse data with another vocabulary than the model's."""
        symbols = symbols_of(self._lines(f"input0/{DICTIONARY}"))
        again = "prepare the task again with --pretrain-dir, the folder or data of the checkpoint"
        with loading(f"--checkpoint {model.path}"):
            check_vocabulary(model.vocabulary, symbols, f"{self.folder}/input0/{DICTIONARY}", again)

    def splits(self, kind: str) -> list[str]:
        """The splits of a kind (valid or test), the main one first."""
        return [split for split in self.task.splits if split in self.rows and kind in split]

    def sha256(self, name: str) -> str:
        return file_sha256(os.path.join(self.folder, name))

    def _has_label_files(self, split: str) -> bool:
        return any(name.startswith(f"label/{split}.") for name in self.files)

    def can_be_predicted(self, split: str) -> bool:
        """For tagging, label files say where words begin, even if the tags are unknown."""
        return self.task.kind != "tagging" or self._has_label_files(split)

    def has_labels(self, split: str) -> bool:
        """Whether the labels are known; unknown tags are <unk>."""
        if not self._has_label_files(split):
            return False
        return self.task.kind != "tagging" or not any(
            (row == UNK).any() for row in self._sentences(f"label/{split}")
        )

    def targets(self, split: str) -> Labels:
        """The true labels in the order of the rows; scores on the task's own scale."""
        if self.task.is_regression:
            return self.unscaled(np.array(self._lines(f"label/{split}.label"), dtype=np.float64))
        classes = [row[:-1] - len(SPECIAL_TOKENS) for row in self._sentences(f"label/{split}")]
        if self.task.kind == "classification":
            return np.concatenate(classes)
        if self.task.kind == "multilabel":
            targets = np.zeros((len(classes), self.task.num_classes), dtype=bool)
            for row, labels in zip(targets, classes):
                row[labels] = True
            return targets
        return [row[row >= 0] for row in classes]

    def unscaled(self, scores: np.ndarray) -> np.ndarray:
        """Scores on the task's own scale, from the scale 0 to 1 that the model learns."""
        low, high = self.task.scale
        return low + np.asarray(scores, dtype=np.float64) * (high - low)

    def texts(self, split: str) -> Iterator[list[list[int]]]:
        """For each row, the tokens of its text or texts; for tagging, the tokens of each word."""
        names = [f"input{number}/{split}" for number in range(self.task.texts)]
        names += [f"label/{split}"] * (self.task.kind == "tagging")
        for tokens, *others in zip(*map(self._sentences, names)):
            parts = [text[:-1] for text in (tokens, *others)]
            if self.task.kind == "tagging":
                parts = np.split(parts[0], _word_starts(*others))[1:]
            yield [part.tolist() for part in parts]

    def examples(self, split: str, max_positions: int) -> int:
        """The number of samples for a model of this length: rows, or windows for tagging."""
        if self.task.kind != "tagging":
            return self.rows[split]
        room = max_positions - 2  # <s> and </s>
        tags = self._sentences(f"label/{split}")
        return sum(len(windows(_word_starts(row), len(row) - 1, room)) for row in tags)

    def index(self, split: str) -> list[str]:
        """The number of each row in the file, from 0; the official one of GLUE's test sets."""
        return self._lines(f"{split}.index")

    def _sentences(self, name: str) -> list[np.ndarray]:
        return read_sentences(os.path.join(self.folder, name))

    def _lines(self, name: str) -> list[str]:
        return read_lines(os.path.join(self.folder, name))


def _word_starts(tags: np.ndarray) -> np.ndarray:
    """Where words begin: the other tokens of a word are tagged <pad>."""
    return np.flatnonzero(tags[:-1] != PAD)
