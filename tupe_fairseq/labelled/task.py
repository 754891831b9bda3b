"""What a task predicts, as the report.json of its data folder records it."""

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any
from urllib.parse import quote, unquote

from tupe_fairseq.data.dictionary import (
    DICTIONARY,
    FILLER,
    MASK,
    REPORT,
    SPECIAL_TOKENS,
    read_dictionary,
)
from tupe_fairseq.data.metrics import METRICS
from tupe_fairseq.files import read_json
from tupe_fairseq.kinds import Kind, get_kind

_FORMER_FIELDS = ("stride", "may_lack")
# symbols that fairseq adds to each dictionary, or treats specially
_RESERVED = re.compile(
    "|".join([*map(re.escape, (*SPECIAL_TOKENS, MASK)), r"madeupword\d+", "#fairseq:.*"]),
    re.DOTALL,
)


@dataclasses.dataclass(frozen=True)
class Task:
    """What is predicted for a row."""

    name: str  # of the task, and of the folder of its runs
    kind: Kind  # or its name
    labels: tuple[str, ...]  # in the order of the head's outputs; () for a score
    texts: int  # number of texts of a row: 1 or 2
    splits: tuple[str, ...]  # train, valid, valid1, test, ...; fairseq numbers them in this order
    metrics: tuple[str, ...]  # reported; names in data.metrics.METRICS
    selection: str  # the metric that picks the best checkpoint
    epochs: int = 10  # passes over the training set by default
    scale: tuple[float, float] | None = None  # of scores; the model learns (x - low) / (high - low)
    benchmark: str = ""  # "GLUE", or "" for your own task

    def __post_init__(self):
        if isinstance(self.kind, str):
            object.__setattr__(self, "kind", get_kind(self.kind))
        for name in (*self.metrics, self.selection):
            if name not in METRICS:
                raise ValueError(f"a task with the metric {name!r}, none of {', '.join(METRICS)}")

    @classmethod
    def load(cls, *folders: str) -> "Task":
        """The task that a report.json describes; those of several folders must be the same."""
        if task := cls.find(*folders):
            return task
        paths = [os.path.join(folder, REPORT) for folder in folders]
        raise FileNotFoundError(
            f"no task is described by {' or '.join(paths)}; give --data, the folder that "
            "tupe-prepare-task or tupe-prepare-glue wrote"
        )

    @classmethod
    def find(cls, *folders: str) -> "Task | None":
        """Like :meth:`load`, but None if no task is described."""
        records = ((path, report.get("description")) for path, report in _reports(folders))
        found = [(path, cls.from_record(record, path)) for path, record in records if record]
        for path, task in found[1:]:
            before, first = found[0]
            if (task.kind, task.labels, task.scale) != (first.kind, first.labels, first.scale):
                tasks = [f"{x.kind.name} {list(x.labels or x.scale or '')}" for x in (first, task)]
                raise ValueError(
                    f"{before} has {tasks[0]}, but {path} of the checkpoint has {tasks[1]}; give "
                    "--data, the folder that it was fine-tuned with, or leave it out"
                )
        if found and found[0][1].labels:
            for folder in folders:
                _check_labels(found[0][1], found[0][0], folder)
        return found[0][1] if found else None

    @classmethod
    def from_record(cls, record: Any, path: str = REPORT) -> "Task":
        """The inverse of :meth:`to_record`."""
        try:
            known = {k: v for k, v in record.items() if k not in _FORMER_FIELDS}
            task = cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in known.items()})
        except (AttributeError, TypeError) as error:
            raise ValueError(f"{path} describes no task of this version: {error}") from error
        except ValueError as error:
            raise ValueError(f"{path} describes {error}") from None
        return task

    def to_record(self) -> dict[str, Any]:
        """The fields as JSON takes them; those of a subclass are left out."""
        values = {x.name: getattr(self, x.name) for x in dataclasses.fields(Task)}
        values["kind"] = self.kind.name
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}

    @property
    def num_classes(self) -> int:
        """The outputs of the head: 1 for a score."""
        return len(self.labels) or 1

    def check_model(self, path: str, kind: Kind, outputs: int) -> None:
        """Refuse a fine-tuned checkpoint of another task."""
        if (kind, outputs) != (self.kind, self.num_classes):
            raise ValueError(
                f"{path} was fine-tuned for {kind.name} with {outputs} outputs, but the task "
                f"{self.name} is a {self.kind.name} with {self.num_classes}; give --data, the "
                "folder that it was fine-tuned with"
            )


def _reports(folders: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The path and the content of each report.json that exists."""
    for path in filter(os.path.isfile, (os.path.join(folder, REPORT) for folder in folders)):
        yield path, read_json(path)


def recorded_columns(*folders: str) -> dict[str, Any]:
    """The columns of the training data by their role, and the separator of labels, if a report.json
    has them, else {}."""
    for _, report in _reports(folders):
        if report.get("columns"):
            separator = report.get("settings", {}).get("label_separator", ",")
            return {"label_separator": separator, **report["columns"]}
    return {}


@dataclasses.dataclass
class TaskRows:
    """The rows of a split before they are encoded."""

    texts: list[tuple[str, ...]] = field(default_factory=list)  # of each row the texts, or words
    labels: list[Any] = field(default_factory=list)  # may be empty; several labels, tags: tuples
    index: list[str] = field(default_factory=list)  # the number of each row in its file, from 0
    groups: list[str] = field(default_factory=list)  # of each row its --group; may be empty
    dropped: Counter[str] = field(default_factory=Counter)  # rows that are left out, by reason
    warnings: Counter[str] = field(default_factory=Counter)  # rows that are kept, but unusual

    @property
    def read(self) -> int:
        """Rows of the file."""
        return len(self.texts) + sum(self.dropped.values())

    def add(self, texts: Sequence[str], label: Any, index: str, group: str | None = None) -> None:
        self.texts.append(tuple(texts))
        self.index.append(index)
        if label is not None:
            self.labels.append(label)
        if group is not None:
            self.groups.append(group)


def label_symbol(label: str) -> str:
    """A label as a word of fairseq's dictionary: ``very good`` is ``very%20good``."""
    if _RESERVED.fullmatch(label):
        return f"%{ord(label[0]):02X}{label[1:]}"
    return "".join(quote(c, safe="") if c.isspace() or c == "%" else c for c in label)


def read_labels(path: str) -> list[str]:
    """The labels of a label/dict.txt, the inverse of :func:`label_symbol`."""
    words = read_dictionary(path)
    return [unquote(word) for word in words if word != MASK and not FILLER.fullmatch(word)]


def _check_labels(task: Task, source: str, folder: str) -> None:
    """Refuse other labels than those of a converted model, whose folder has no report.json."""
    path = os.path.join(folder, "label", DICTIONARY)
    if not os.path.isfile(path) or os.path.exists(os.path.join(folder, REPORT)):
        return
    labels, found = list(task.labels), read_labels(path)
    unnamed = [f"LABEL_{n}" for n in range(len(labels))]  # transformers' default
    if found not in (labels, unnamed):
        raise ValueError(
            f"{source} has the labels {labels}, but {path} of the checkpoint has {found}; they "
            "must be the same, in this order"
        )
