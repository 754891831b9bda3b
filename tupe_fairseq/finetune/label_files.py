"""The true answers of a split, as the label folder of a task's data has them."""

import math
import os

import numpy as np

from tupe_fairseq.files.names import BUILT_IN_SYMBOLS
from tupe_fairseq.labelled.task_description import CLASSIFICATION, MULTILABEL, TAGGING, Task
from tupe_fairseq.labelled.windows import windows
from tupe_fairseq.text.mmap_index import count, first_sentences, first_tokens

#: int64 (N,) classes, float64 (N,) scores, bool (N, C) labels; or int64 (words,) tags of N rows
Answers = np.ndarray | list[np.ndarray]

_FIRST = len(BUILT_IN_SYMBOLS)
_PAD, _UNKNOWN = map(BUILT_IN_SYMBOLS.index, ("<pad>", "<unk>"))


def label_files(task: Task, split: str) -> list[str]:
    """The files of a split's labels, relative to the data folder."""
    if task.is_regression:
        return [f"label/{split}.label"]
    return [f"label/{split}.bin", f"label/{split}.idx"]


def read_labels(folder: str, task: Task, split: str) -> Answers:
    """The true answers, in the order of the rows; scores on the task's own scale.

    Args:
        folder (str): the data folder.
        task (Task): what it describes.
        split (str): one with labels.
    Raises:
        OSError, ValueError: if they cannot be read.
    """
    prefix = os.path.join(folder, "label", split)
    if task.is_regression:
        return unscaled(task, _scores(prefix + ".label"))
    if task.kind == CLASSIFICATION:
        return _listed(first_tokens(prefix) - _FIRST, task, prefix)
    symbols = [row[:-1] for row in _rows(prefix)]
    if task.kind == MULTILABEL:
        targets = np.zeros((len(symbols), task.num_classes), dtype=bool)
        for row, labels in enumerate(symbols):
            targets[row, _listed(labels - _FIRST, task, prefix)] = True
        return targets
    return [_listed(row[row != _PAD] - _FIRST, task, prefix) for row in symbols]


def read_words(folder: str, split: str) -> list[list[bytes]]:
    """The words of each row of a tagging task, each as its pieces, which tell it from others.

    Raises:
        OSError, ValueError: if they cannot be read, or there are not as many tags as pieces.
    """
    texts = _rows(os.path.join(folder, "input0", split))
    tags = _rows(os.path.join(folder, "label", split))
    words = []
    for number, (pieces, row) in enumerate(zip(texts, tags), start=1):
        if len(pieces) != len(row):
            raise ValueError(
                f"row {number} of {split} in {folder} has {len(pieces) - 1} pieces, but "
                f"{len(row) - 1} tags; prepare the task again"
            )
        begins = np.flatnonzero(row[:-1] != _PAD)
        words.append([word.tobytes() for word in np.split(pieces[:-1], begins)[1:]])
    return words


def count_windows(folder: str, split: str, max_positions: int) -> int:
    """The parts in which the sentences of a tagging task fit the model; see :func:`windows`."""
    found = 0
    for row in _rows(os.path.join(folder, "label", split)):
        begins = np.flatnonzero(row[:-1] != _PAD)
        found += len(windows(begins, len(row) - 1, max_positions - 2))  # <s> and </s>
    return found


def has_answers(folder: str, task: Task, split: str) -> bool:
    """Whether the labels of a split are known; tags that are not are <unk>.

    Raises:
        OSError, ValueError: if they cannot be read.
    """
    prefix = os.path.join(folder, "label", split)
    if not os.path.isfile(os.path.join(folder, label_files(task, split)[0])):
        return False
    is_tagging = task.kind == TAGGING
    return not is_tagging or not any((row == _UNKNOWN).any() for row in _rows(prefix))


def unscaled(task: Task, scores: np.ndarray) -> np.ndarray:
    """Scores of a regression as users have them, from those of 0 to 1 that the model learns."""
    low, high = task.scale
    return low + np.asarray(scores, dtype=np.float64) * (high - low)


def text_lines(path: str) -> list[str]:
    """The lines of a text, which only line feeds separate; refused by name if it is none."""
    with open(path, encoding="utf-8", newline="") as file:
        try:
            lines = file.read().split("\n")
        except ValueError as error:
            raise ValueError(f"{path} is not a text in UTF-8; prepare the task again") from error
    return lines if lines[-1] else lines[:-1]


def _rows(prefix: str) -> list[np.ndarray]:
    return first_sentences(prefix, count(prefix)[0])


def _listed(classes: np.ndarray, task: Task, prefix: str) -> np.ndarray:
    if len(classes) and not 0 <= classes.min() <= classes.max() < task.num_classes:
        raise ValueError(f"{prefix}.bin has labels that label/dict.txt does not list")
    return classes


def _scores(path: str) -> np.ndarray:
    """The finite number on each line."""
    scores = []
    for number, line in enumerate(text_lines(path), start=1):
        try:
            scores.append(float(line))
        except ValueError:
            scores.append(math.nan)
        if not math.isfinite(scores[-1]):
            raise ValueError(
                f"line {number} of {path} is {line!r}, not a score; prepare the task again"
            )
    return np.array(scores)
