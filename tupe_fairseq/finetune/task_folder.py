"""The files of a task's data folder."""

import os
from dataclasses import dataclass

from tupe_fairseq.finetune.label_files import (
    Answers,
    has_answers,
    label_files,
    read_labels,
    read_words,
    text_lines,
)
from tupe_fairseq.labelled.task_description import TAGGING, Task


@dataclass(frozen=True)
class TaskData:
    """A data folder of one task.

    Args:
        folder (str): OUT/TASK, absolute.
        task (Task): the task.
        max_positions (int): the length in tokens above which its report counts rows as too long.
        vocabulary (str): sha256 of dict.txt.
        rows (dict): split to its number of rows.
    """

    folder: str
    task: Task
    max_positions: int
    vocabulary: str
    rows: dict[str, int]

    def splits(self, kind: str) -> tuple[str, ...]:
        """The existing splits of a kind (valid or test), the main one first."""
        names = [name for name in self.task.splits if name.rstrip("0123456789") == kind]
        return tuple(name for name in names if name in self.rows)

    def has_labels(self, split: str) -> bool:
        """Whether the true answers are known, as of all splits but some test sets."""
        return not split.startswith("test") or has_answers(self.folder, self.task, split)

    def can_be_predicted(self, split: str) -> bool:
        """Whether words are known; those of a tagging task begin where label/ has symbols."""
        return self.task.kind != TAGGING or self._has_label_files(split)

    def files(self) -> list[str]:
        """All files of the splits, relative to the folder; each has its part in the results."""
        names = []
        for split in self.rows:
            for number in range(self.task.texts):
                names += [f"input{number}/{split}{end}" for end in (".bin", ".idx")]
            if self._is_official(split):
                names.append(f"{split}.index")
            elif self._has_label_files(split) or not split.startswith("test"):
                names += label_files(self.task, split)
        return names

    def targets(self, split: str) -> Answers:
        """The true answers, in the order of the rows.

        Raises:
            OSError, ValueError: if the labels cannot be read, or their number is not that of the
                rows.
        """
        targets = read_labels(self.folder, self.task, split)
        if len(targets) != self.rows[split]:
            prefix = os.path.join(self.folder, "label", split)
            raise ValueError(f"{prefix} has {len(targets)} labels for {self.rows[split]} rows")
        return targets

    def test_index(self, split: str) -> list[str]:
        """The official index of each row of a benchmark's test split.

        Raises:
            OSError, ValueError: if it cannot be read, or a submission cannot be written with it.
        """
        path = os.path.join(self.folder, f"{split}.index")
        index = text_lines(path)
        if len(index) != self.rows[split] or len(set(index)) != len(index):
            raise ValueError(
                f"{path} has {len(index)} lines, {len(set(index))} of them different, for "
                f"{self.rows[split]} rows; prepare the task again"
            )
        return index

    def check_answers(self, split: str) -> None:
        """Read what there is beside the sentences.

        Raises:
            OSError, ValueError: if it is not as it should be.
        """
        if self._is_official(split):
            self.test_index(split)
            return
        if self.task.kind == TAGGING and self.can_be_predicted(split):
            read_words(self.folder, split)
        if self.has_labels(split):
            self.targets(split)

    def _has_label_files(self, split: str) -> bool:
        return os.path.isfile(os.path.join(self.folder, label_files(self.task, split)[0]))

    def _is_official(self, split: str) -> bool:
        """Whether it is the test set of a benchmark, whose answers only its server has."""
        return bool(self.task.benchmark) and split.startswith("test")
