"""What answers without looking at the text would score: the least that training should beat."""

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from tupe_fairseq.finetune.answers import measured
from tupe_fairseq.finetune.label_files import Answers, read_words
from tupe_fairseq.finetune.selection import metric_names
from tupe_fairseq.finetune.task_folder import TaskData
from tupe_fairseq.labelled.task_description import MULTILABEL, TAGGING

#: the answer in words, and the answers for a split
_Baseline = tuple[str, Callable[[str], Answers]]


def baseline(data: TaskData) -> dict[str, Any]:
    """The scores of answers that are chosen on the training set.

    A classification gives its most frequent class (the first one if tied), a regression the mean
    score, a task of labels the most frequent set of them, a tagging task the most frequent tag of
    each word, and of all words for those that are not in the training set.

    Returns:
        dict: ``answer``, the class, score, labels or tag; ``metrics``, by development set, as
        fractions; and ``test``, the same for test sets with labels.
    """
    answer, answers = _baseline(data)

    def scores(kind: str) -> dict[str, dict[str, float]]:
        return {
            split: measured(data.task, metric_names(data.task), answers(split), data.targets(split))
            for split in data.splits(kind)
            if data.has_labels(split)
        }

    test = {} if data.task.benchmark else {"test": scores("test")}
    return {"answer": answer, "metrics": scores("valid"), **test}


def _baseline(data: TaskData) -> _Baseline:
    task, train = data.task, data.targets("train")
    if task.kind == TAGGING:
        return _tag_of_each_word(data, train)
    if task.kind == MULTILABEL:
        most = Counter(map(tuple, train.tolist())).most_common(1)[0][0]
        constant = np.array(most)
        answer = ", ".join(np.array(task.labels)[constant]) or "no label"
    elif task.is_regression:
        constant = float(train.mean())
        answer = f"{constant:.3f}"
    else:
        constant = int(np.bincount(train).argmax())
        answer = task.labels[constant]

    def answers(split: str) -> np.ndarray:
        targets = data.targets(split)
        return np.broadcast_to(np.asarray(constant, dtype=targets.dtype), targets.shape)

    return answer, answers


def _tag_of_each_word(data: TaskData, train: list[np.ndarray]) -> _Baseline:
    counts: dict[bytes, Counter] = defaultdict(Counter)
    for words, tags in zip(read_words(data.folder, "train"), train):
        for word, tag in zip(words, tags.tolist()):
            counts[word][tag] += 1
    of_word = {word: _most(tags) for word, tags in counts.items()}
    otherwise = _most(sum(counts.values(), Counter()))

    def answers(split: str) -> list[np.ndarray]:
        return [
            np.array([of_word.get(word, otherwise) for word in words], dtype=np.int64)
            for words in read_words(data.folder, split)
        ]

    return data.task.labels[otherwise], answers


def _most(counts: Counter) -> int:
    """The most frequent class; the first one if tied."""
    return max(sorted(counts), key=counts.__getitem__)
