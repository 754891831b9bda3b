"""What all kinds of tasks have in common."""

import logging
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tupe_fairseq.data.dictionary import SPECIAL_TOKENS, UNK
from tupe_fairseq.data.row_formats import RowError, quoted
from tupe_fairseq.data.rows import refuse_list, texts_of
from tupe_fairseq.data.text_files import printable
from tupe_fairseq.options import flag

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from tupe_fairseq.data.truncation import Sample

logger = logging.getLogger(__name__)

#: ``labelled.task.Task``, which has a kind
Task = Any
#: the labels of rows in memory: int64 (N,) classes, float64 (N,) scores, bool (N, C) labels; for
#: words a list of N arrays int64 (words,)
Labels = Any
#: a label as users write it: a label or a score, or for kinds with ``many`` a tuple of them
Label = str | tuple[str, ...]
#: the key of the probabilities of all labels
ALL = "all_probabilities"
#: decimals of a probability
DIGITS = 6
# what pandas and databases write for a missing value
_NOTHING = re.compile(r"|nan|null|<na>|\\n", re.IGNORECASE)
# a class of fewer rows is hardly learned, and not measured
_FEW_ROWS = 5


def all_of(label: Label) -> tuple[str, ...]:
    """All labels of a row."""
    return (label,) if isinstance(label, str) else label


class Kind:
    """What is predicted for a row; the hooks stand in the order in which the tools need them.

    The base class has one of several labels for a text or a pair of texts. A row's label is text in
    files, and a number in memory.
    """

    name = ""  # --kind
    help = ""
    is_own = False  # whether a --user-dir registers it
    #: the flags of tupe-prepare-task that not all kinds take
    flags: tuple[str, ...] = ("labels", "text2")
    of_words = False  # whether a row is a list of words, each with a label
    many = False  # whether a row has a tuple of labels
    has_labels = True  # False: scores
    may_be_empty = False  # whether a row may have no label
    #: names in ``data.metrics.METRICS``; the first two that fit the labels are reported
    metrics: tuple[str, ...]
    selection = ""  # the metric that picks checkpoints, if it is not the first one

    # ---- A row of a file -> its texts and its label

    def read_texts(self, values: list[Any]) -> list[str]:
        """The texts, or the words, of a row's cells; RowError if there are none."""
        return texts_of(values)

    def read_label(self, cell: Any, words: Sequence[str], separator: str, known: Sequence[str]):
        """The label in a cell, stripped of surrounding space; RowError if there is none.

        ``words`` are the row's texts, ``known`` the labels of --labels.
        """
        label = tuple(printable(one).strip() for one in self.split(cell, separator))
        for one in label:
            if _NOTHING.fullmatch(one) and one not in known:
                advice = "; if it is a label, list all in tupe-prepare-task --labels"
                advice *= bool(one) and self.has_labels
                raise RowError(f"has an empty label, {one!r}{advice}", "empty label")
        return label if self.many else label[0]

    def split(self, cell: Any, separator: str) -> list[str]:
        """The labels in a cell."""
        if not isinstance(cell, str):
            problem = "has a list of labels; only --kind multilabel takes lists"
            raise RowError(problem, "a list of labels")
        refuse_list(cell, "," in cell)
        return [cell]

    # ---- All rows -> the labels of the task

    def normalizer(
        self, labels: Sequence[str], rows: Sequence[Label] = ()
    ) -> Callable[[Label], Label]:
        """What turns a row's label into that of a task with these labels, or of these rows."""
        return lambda label: label

    def find_labels(self, options, rows: Sequence[Label], column: str) -> tuple[str, ...]:
        """The labels in the order of the classes; all occur in ``rows``, those of --train."""
        seen, path = Counter(one for label in rows for one in all_of(label)), options.files["train"]
        for label in options.labels:
            if label not in seen:
                raise ValueError(f"--labels has {label!r}, which does not occur in {path}")
        fewest = 2 - self.may_be_empty
        if len(seen) < fewest:
            raise ValueError(
                f"{path} has {len(seen)} different labels ({quoted(seen) or 'none'}); --kind "
                f"{self.name} needs {fewest} or more"
            )
        for label in seen:
            if f"{label}.0" in seen:
                raise ValueError(f"{path} has the labels {label!r} and '{label}.0'; write one")
        alike = defaultdict(list)
        for label in seen:
            alike[spelling(label)].append(label)
        for same in alike.values():
            if len(same) > 1:
                logger.warning("labels that differ only in case or spaces: %s", counted(seen, same))
        rare = sorted(label for label in seen if seen[label] < _FEW_ROWS)
        if rare and not self.of_words:
            logger.warning("labels of fewer than %d rows: %s", _FEW_ROWS, counted(seen, rare))
        numeric = all(map(is_number, seen))
        labels = sorted(seen, key=lambda label: (float(label) if numeric else 0, label))
        logger.info("labels in the order of the classes: %s", quoted(options.labels or labels))
        return options.labels or tuple(labels)

    def find_scale(self, rows: Sequence[Label]) -> tuple[float, float] | None:
        """The lowest and the highest score of the training set."""
        return None

    # ---- The parts of a file

    def strata(self, rows: Sequence[Label]) -> list[Any]:
        """The stratum of each row; each part gets its share of each."""
        return [tuple(sorted(all_of(label))) for label in rows]

    # ---- Files that fairseq reads, and back

    def write_labels(
        self, task: Task, labels: Sequence[Label], path: str, word_lengths: list[list[int]]
    ) -> None:
        """Write label/SPLIT, whose path this is; ``word_lengths`` are the words' tokens."""
        from tupe_fairseq.data.indexed import IndexedWriter

        ids = label_ids(task)
        with IndexedWriter(path, len(SPECIAL_TOKENS) + len(ids)) as writer:
            writer.write([[ids[one] for one in all_of(label)] for label in labels])

    def read_targets(self, path: str, num_classes: int) -> Labels | None:
        """Read label/SPLIT, whose path this is, as labels in memory; None if they are unknown.

        Scores are on the scale that the model learns, 0 to 1.
        """
        from tupe_fairseq.data.indexed import read_sentences

        if not os.path.exists(f"{path}.idx"):
            return None
        rows = [row[:-1] for row in read_sentences(path)]
        if any((row == UNK).any() for row in rows):
            return None
        return self.from_numbers([row - len(SPECIAL_TOKENS) for row in rows], num_classes)

    def from_numbers(self, rows: list["np.ndarray"], num_classes: int) -> Labels:
        """The labels in memory, from the numbers of each row's labels; here there is one."""
        import numpy as np

        for place, row in enumerate(rows, 1):
            if len(row) != 1:
                advice = "pass --multilabel if rows may have any number"
                raise ValueError(f"row {place} has {len(row)} labels; {advice}")
        return np.concatenate(rows)

    # ---- Labels in memory, and as users write them

    def numbers(self, labels: Labels) -> Iterator[list[int]]:
        """The inverse of :meth:`from_numbers`."""
        import numpy as np

        return (np.atleast_1d(row).tolist() for row in labels)

    def spell(self, labels: Labels, task: Task) -> list[Any]:
        """The label, the score, or the list of labels of each row."""
        rows = [[task.labels[number] for number in row] for row in self.numbers(labels)]
        return rows if self.many else [row[0] for row in rows]

    def unspell(self, rows: Sequence[Any], task: Task) -> Labels:
        """The inverse of :meth:`spell`."""
        import numpy as np

        number = {label: n for n, label in enumerate(task.labels)}
        of_rows = (map(number.__getitem__, all_of(label)) for label in rows)
        return self.from_numbers([np.array([*row], dtype=int) for row in of_rows], task.num_classes)

    # ---- The sequences of tokens that a model gets, in training and to predict

    def samples(self, texts: Sequence[list[int]], max_positions: int) -> list["Sample"]:
        """The samples of a row, from the tokens of its texts, or of its words."""
        from tupe_fairseq.data.truncation import join_texts

        return [join_texts(texts, max_positions)]

    # ---- fairseq-train

    fairseq_task = "glue_sentence_prediction"  # and the name of its criterion
    converted_task = "glue_sentence_prediction"  # of models that tupe-convert writes
    #: the options of the task that are True for this kind; those of a user's kind are ``kind``
    switches: tuple[str, ...] = ()
    loss_name = "loss, bits"

    def train_flags(self) -> list[object]:
        """The flags of fairseq-train."""
        return [*map(flag, self.switches), *(["--kind", self.name] if self.is_own else [])]

    def loss(self, logits: "Tensor", targets: "Tensor", weights: "Tensor | None") -> "Tensor":
        """The sum of the rows' (or words') losses; here cross-entropy, weighted by --class-weights.

        Shape: logits (N, C); targets (N, ...), labels in memory; weights (C).
        """
        import torch.nn.functional as F

        return F.nll_loss(F.log_softmax(logits, dim=-1), targets, weights, reduction="sum")

    def class_weights(self, train: Labels, task: Task) -> tuple["np.ndarray", "np.ndarray"]:
        """--balance: how many rows (or words) have each label, and the label's weight.

        Here n / (C n_c) for a class with n_c of n rows (or words), out of C classes.
        """
        import numpy as np

        numbers = np.concatenate(train) if self.of_words else train
        counts = np.bincount(numbers, minlength=task.num_classes)
        with np.errstate(divide="ignore"):
            return counts, len(numbers) / (len(counts) * counts)

    # ---- Outputs -> predictions

    #: of a prediction: those of the label or score and, if there is one, its probability
    keys: tuple[str, ...]

    def decide(self, logits: "np.ndarray") -> Any:
        """The predicted labels in memory: (..., C) -> (...)."""
        return logits.argmax(axis=-1)

    def probabilities(self, logits: "np.ndarray") -> "np.ndarray":
        """The probability of each label, float64. Shape: (..., C) -> (..., C)."""
        import numpy as np

        logits = logits.astype(np.float64)
        shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return shares / shares.sum(axis=-1, keepdims=True)

    def predict(
        self, logits: "np.ndarray", task: Task, all_probabilities: bool = False
    ) -> dict[str, Any]:
        """A prediction, with :attr:`keys`, from the head's outputs for a row.

        All probabilities are a dict from each label, for words a list of them.
        """
        import numpy as np

        decided, shares = self.decide(logits), self.probabilities(logits).round(DIGITS)
        result = {self.keys[0]: self.spell(decided[None], task)[0]}
        result |= {name: shares[decided].tolist() for name in self.keys[1:]}
        if all_probabilities:
            of_words = [dict(zip(task.labels, one)) for one in np.atleast_2d(shares).tolist()]
            result[ALL] = of_words if self.of_words else of_words[0]
        return result

    # ---- Evaluation

    figure: str | None = None  # of predictions: confusion, scatter or none

    def measured(self, labels: Labels, task: Task) -> Any:
        """The labels in the form that metrics take."""
        return labels

    def baseline(self, data) -> tuple[str, Callable[[str], Labels]]:
        """What a prediction that ignores the text is, in words, and its labels for a split.

        Here it is the most frequent label, or set of labels.
        """
        import numpy as np

        labels, counts = np.unique(data.targets("train"), axis=0, return_counts=True)
        most = labels[[counts.argmax()]]
        answer = ", ".join(all_of(self.spell(most, data.task)[0])) or "no label"
        return answer, lambda split: most.repeat(data.rows[split], axis=0)

    def baseline_in_table(self, answer: str) -> str:
        """The baseline's name in tables."""
        return f"always {answer}"

    def decisions(self, logits: "np.ndarray", target: Any) -> "tuple[np.ndarray, np.ndarray]":
        """The model's confidence in each decision for a row, and which of them are right."""
        import numpy as np

        shares = self.probabilities(logits)
        decided = self.decide(logits)
        sure = np.take_along_axis(shares, np.expand_dims(decided, -1), -1).reshape(-1)
        return sure, np.atleast_1d(decided == target)

    def texts_of_error(self, texts: Sequence[Any], target: Any, prediction: Any) -> Sequence[Any]:
        """The texts of a wrong row on the page."""
        return texts

    # ---- transformers

    transformers_class = "ForSequenceClassification"  # the end of the names of its classes
    pipeline = "text-classification"
    problem_type: str | None = None  # in config.json


def is_number(text: str) -> bool:
    """Whether a score is a number in ASCII digits; Python alone reads 1_5 as 15."""
    return bool(re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII)) and (
        math.isfinite(float(text))
    )


def spelling(label: str) -> str:
    """The same for labels that a reader would take for the same."""
    return "".join(label.removesuffix(".0").casefold().split())


def counted(counts: Counter[str], labels: Sequence[str]) -> str:
    return ", ".join(f"{label!r} ({counts[label]})" for label in labels[:10])


def label_ids(task: Task) -> dict[str, int]:
    """The numbers of the labels in fairseq's dictionary."""
    return {label: id for id, label in enumerate(task.labels, len(SPECIAL_TOKENS))}
