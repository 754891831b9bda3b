"""What all kinds of tasks have in common."""

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tupe_fairseq.data.dictionary import SPECIAL_TOKENS
from tupe_fairseq.data.rows import RowError, quoted, refuse_list, texts_of
from tupe_fairseq.data.text_files import printable

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

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


class Metrics(NamedTuple):
    """Names in ``data.metrics.METRICS``: those reported, and the one that picks checkpoints."""

    reported: tuple[str, ...]
    selection: str


def all_of(label: Label) -> tuple[str, ...]:
    """All labels of a row."""
    return (label,) if isinstance(label, str) else label


class Kind:
    """What is predicted for a row; the hooks stand in the order in which the tools need them.

    The base class has one or more labels for a text or a pair of texts, as fairseq's
    sentence_prediction reads them. A row's label is text in files, and a number in memory.
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
    fewest_labels = 2
    #: the names of all metrics in ``data.metrics.METRICS`` that fit
    metrics: tuple[str, ...] = ()

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
        self.check_label(label, words)
        return label if self.many else label[0]

    def split(self, cell: Any, separator: str) -> list[str]:
        """The labels in a cell."""
        if not isinstance(cell, str):
            problem = "has a list of labels; only --kind multilabel takes lists"
            raise RowError(problem, "a list of labels")
        refuse_list(cell, "," in cell)
        return [cell]

    def check_label(self, label: tuple[str, ...], words: Sequence[str]) -> None:
        """Refuse a row's label by a RowError."""

    def is_spaced(self, cell: Any) -> bool:
        """Whether spaces around a label are dropped, of which users are told."""
        return False

    # ---- All rows -> the labels of the task

    def normalizer(self, rows: Sequence[Label], given: Sequence[str]) -> Callable[[Label], Label]:
        """What turns the label of a training set's row into that of the task."""
        return lambda label: label

    def normalizer_of(self, labels: Sequence[str]) -> Callable[[Label], Label]:
        """The same for a task that was prepared."""
        return lambda label: label

    def find_labels(self, options, rows: Sequence[Label], column: str) -> tuple[str, ...]:
        """The labels in the order of the classes; all occur in ``rows``, those of --train."""
        seen, path = Counter(one for label in rows for one in all_of(label)), options.files["train"]
        for label in options.labels:
            if label not in seen:
                raise ValueError(f"--labels has {label!r}, which does not occur in {path}")
        if len(seen) < self.fewest_labels:
            raise ValueError(
                f"{path} has {len(seen)} different labels ({quoted(seen) or 'none'}); --kind "
                f"{self.name} needs {self.fewest_labels} or more"
            )
        for label in seen:
            if f"{label}.0" in seen:
                raise ValueError(f"{path} has the labels {label!r} and '{label}.0'; write one")
        self.check_labels(options, rows, seen, column)
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

    def check_labels(self, options, rows: Sequence[Label], seen: Counter, column: str) -> None:
        """Refuse labels that are probably a mistake, or warn of them."""

    def find_scale(self, rows: Sequence[Label]) -> tuple[float, float] | None:
        """The lowest and the highest score of the training set."""
        return None

    def metrics_of(self, labels: Sequence[str]) -> Metrics:
        """The metrics of a task with these labels."""
        raise NotImplementedError

    # ---- The parts of a file

    def key(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The same for rows that a model cannot tell apart, such as a pair in both orders."""
        return tuple(sorted(texts))

    def strata(self, rows: Sequence[Label]) -> list[Any]:
        """The stratum of each row; each part gets its share of each."""
        return [tuple(sorted(all_of(label))) for label in rows]

    def must_stay(self, label: Label) -> tuple[str, ...]:
        """The labels of a row of which the training set keeps at least one row."""
        return all_of(label)

    # ---- Files that fairseq reads, and back

    def encode(self, task: Task, rows, number: int, tokenizer, folder: str, split: str, workers):
        """The tokens of each row's text of this number."""
        lines = (tokenizer.normalize(texts[number]) for texts in rows.texts)
        return tokenizer.encode_lines(lines, workers)

    def write_labels(self, task: Task, labels: Sequence[Label], folder: str, split: str) -> None:
        """Write the labels of a split to its folder label/."""
        from tupe_fairseq.data.indexed import IndexedWriter

        ids = label_ids(task)
        with IndexedWriter(str(Path(folder, split)), 4 + len(ids)) as writer:
            writer.write([[ids[one] for one in all_of(label)] for label in labels])

    def read_targets(self, task: Task, path: str) -> Labels:
        """Read label/SPLIT, whose path this is, as labels in memory."""
        from tupe_fairseq.data.indexed import read_sentences

        rows = [row[:-1] - len(SPECIAL_TOKENS) for row in read_sentences(path)]
        return self.from_numbers(rows, task)

    def from_numbers(self, rows: list["np.ndarray"], task: Task) -> Labels:
        """The labels in memory, from the numbers of each row's labels."""
        raise NotImplementedError

    # ---- Labels in memory, and as users write them

    def spell(self, labels: Labels, task: Task) -> list[Any]:
        """The label, the score, or the list of labels of each row."""
        return [[task.labels[number] for number in row] for row in self.numbers(labels)]

    def numbers(self, labels: Labels) -> Iterator[list[int]]:
        """The numbers of each row's labels."""
        return (row.tolist() for row in labels)

    def unspell(self, rows: Sequence[Any], task: Task) -> Labels:
        """The inverse of :meth:`spell`."""
        import numpy as np

        number = {label: n for n, label in enumerate(task.labels)}
        of_rows = (map(number.__getitem__, all_of(label)) for label in rows)
        return self.from_numbers([np.array(list(row), dtype=int) for row in of_rows], task)

    # ---- fairseq-train

    task_name = "glue_sentence_prediction"  # of fairseq's task and criterion
    hub_task = "glue_sentence_prediction"  # of the task of converted models
    #: the options of the task that say so; those of a user's kind are ``kind``
    options: Mapping[str, bool] = {}
    logs_accuracy = False  # whether training logs it
    loss_name = "loss, bits"
    pools = True  # whether the head takes --pooling

    def is_trained_by(self, options: Mapping[str, Any]) -> bool:
        """Whether a checkpoint with these options of its fairseq task predicts this."""
        return bool(self.options) and all(options.get(name) for name in self.options)

    def train_flags(self) -> list[object]:
        """The flags of fairseq-train."""
        flags = [f"--{name.replace('_', '-')}" for name in self.options]
        flags += ["--kind", self.name] if self.is_own else []
        return [*flags, "--init-token", 0, "--separator-token", 2]

    def target(self, classes: list[int], num_classes: int) -> Any:
        """A row's target for :meth:`loss`; ValueError if it cannot have these classes."""
        raise NotImplementedError

    def loss(self, logits: "Tensor", targets: "Tensor", weights: "Tensor | None") -> "Tensor":
        """The sum of the rows' (or words') losses; here cross-entropy, weighted by --class-weights.

        Shape: logits (N, C); targets as :meth:`target` gives them; weights (C).
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

    #: the keys of a prediction
    keys: tuple[str, ...] = ()

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
        """A prediction, with :attr:`keys`, from the head's outputs for a row."""
        shares = self.probabilities(logits).round(DIGITS)
        result = dict(zip(self.keys, self.values(self.decide(logits), shares, task)))
        if all_probabilities:
            result[ALL] = self.all_probabilities(shares, task)
        return result

    def values(self, decided: Any, shares: "np.ndarray", task: Task) -> tuple[Any, ...]:
        """The values of :attr:`keys`, from what was decided and all probabilities."""
        raise NotImplementedError

    def all_probabilities(self, shares: "np.ndarray", task: Task) -> Any:
        """A dict from each label to its probability."""
        return dict(zip(task.labels, shares.tolist()))

    # ---- Evaluation

    figure: str | None = None  # of predictions: confusion, scatter or none

    def measured(self, labels: Labels, task: Task) -> Any:
        """The labels in the form that metrics take."""
        return labels

    def baseline(self, data) -> tuple[str, Callable[[str], Labels]]:
        """What a prediction that ignores the text is, in words, and its labels for a split."""
        import numpy as np

        answer, constant = self.constant(data.targets("train"), data.task)
        return answer, lambda split: np.broadcast_to(constant, data.targets(split).shape)

    def constant(self, train: Labels, task: Task) -> tuple[str, Any]:
        """The label that is predicted for every row, in words and as a number."""
        raise NotImplementedError

    def baseline_in_table(self, answer: str) -> str:
        """The baseline's name in tables."""
        return f"always {answer}"

    def decisions(
        self, logits: "np.ndarray", target: Any
    ) -> "tuple[np.ndarray, np.ndarray] | None":
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
    import math

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
