"""Your own labelled files as a task: texts, labels, and rows held out for validation."""

import argparse
import logging
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tupe_fairseq.data.columns import Columns, choose_columns
from tupe_fairseq.data.metrics import are_entities
from tupe_fairseq.data.rows import (
    DELIMITED,
    BadRows,
    RowError,
    ending_of,
    place,
    quoted,
    read_rows,
    refuse_list,
    words_of,
)
from tupe_fairseq.data.task import (
    CLASSIFICATION,
    MULTILABEL,
    REGRESSION,
    TAGGING,
    Task,
    TaskRows,
    as_tuple,
    is_number,
)
from tupe_fairseq.data.text_files import printable

logger = logging.getLogger(__name__)

BIO, IOB1 = "BIO", "IOB1"
# what is reported, and what picks the best checkpoint
_METRICS = {
    CLASSIFICATION: (("accuracy", "macro_f1"), "accuracy"),
    REGRESSION: (("pearson", "spearman"), "pearson_and_spearman"),
    MULTILABEL: (("micro_f1", "macro_f1"), "micro_f1"),
    TAGGING: (("accuracy",), "accuracy"),
    BIO: (("entity_f1", "accuracy"), "entity_f1"),
}
# fine-tuning needs two rows to train and to validate with
_FEWEST = 2
# more classes than this, and than half of the rows, are no classes
_MANY_LABELS = 20


# what pandas and databases write where there is nothing
_NOTHING = re.compile(r"|nan|null|<na>|\\n", re.IGNORECASE)
# what test sets have in place of labels
_UNLABELLED = re.compile(
    r"\W*(_+|nan?|n/a|null|none|hidden|unknown|unlabell?ed)?\W*|\\n|-\d+(\.0)?", re.IGNORECASE
)


class _Row(NamedTuple):
    number: int  # of its line
    index: int  # among all rows of the file, from 0
    texts: tuple[str, ...]
    label: Any


class _File:
    """The rows of a file that can be used, and the number of those that cannot, by reason."""

    def __init__(self, path: str, columns: Columns, options: argparse.Namespace):
        self.path, self._skips = path, options.skip_bad_rows
        self.dropped = BadRows()
        names = [*columns.texts, *([columns.label] if columns.label else [])]

        def use(index: int, row: dict[str, Any], texts: dict[str, Any]) -> tuple:
            return index, *_parse(options, texts, columns)

        rows = read_rows(path, names, options.has_header, self._drop, use)
        self.rows = [_Row(number, *row) for number, row in rows]
        self.check(lambda row: None)

    @property
    def read(self) -> int:
        return len(self.rows) + sum(self.dropped.values())

    def check(self, problem_of: Callable[[_Row], tuple[str, str] | None]) -> None:
        """Drop, or refuse, the rows that have a problem; its second part is the reason to count."""
        kept = []
        for row in self.rows:
            problem = problem_of(row)
            if problem is None:
                kept.append(row)
            else:
                self._drop(RowError(f"{place(self.path, row.number)} {problem[0]}", problem[1]))
        self.rows = kept
        if not kept:
            raise ValueError(f"{self.path}: no row can be used; left out: {self.dropped}")

    def convert(self) -> None:
        """Turn IOB1, where B-x begins an entity only behind another x, into BIO."""
        self.rows = [row._replace(label=row.label and _as_bio(row.label)) for row in self.rows]

    def _drop(self, error: RowError) -> None:
        if not self._skips:
            raise ValueError(f"{error}; --skip-bad-rows leaves such rows out")
        self.dropped(error)

    def task_rows(self, places: Iterable[int], kind: str) -> TaskRows:
        """The rows at these places."""
        rows = TaskRows()
        for row in map(self.rows.__getitem__, places):
            rows.add(row.texts, kind == TAGGING)
            rows.index.append(str(row.index))
            if row.label is not None:
                rows.labels.append(row.label)
        rows.read = len(rows.texts)
        return rows


def read_task(options: argparse.Namespace) -> tuple[Task, dict[str, TaskRows], Columns]:
    """The task, its rows, and the columns of train.

    Args:
        options: the flags of tupe-prepare-task, ``files`` by split, and ``has_header``.
    """
    columns = _columns(options)
    train = _File(options.files["train"], columns, options)
    scheme = _scheme(options, train) if options.kind == TAGGING else None
    converted = scheme == IOB1 and not options.labels
    if converted:
        train.convert()
    train.check(lambda row: _problem(row, options.labels, options.scale))
    labels = () if options.kind == REGRESSION else _labels(options, train, columns)
    splits = {} if "valid" in options.files else _hold_out(options, train)
    for split, path in options.files.items():
        of_split = columns
        if split == "test" and not _is_labelled(options, path, columns.label, train):
            of_split = columns._replace(label=None)
        file = train if split == "train" else _File(path, of_split, options)
        if converted:
            file.convert()
        file.check(lambda row: _problem(row, labels))
        if split not in splits:
            splits[split] = file.task_rows(range(len(file.rows)), options.kind)
        splits[split].read += file.dropped.total()
        splits[split].dropped = file.dropped
    for split, rows in splits.items():
        if split != "test" and len(rows.texts) < _FEWEST:
            raise ValueError(f"{split} has {len(rows.texts)} rows; fine-tuning needs {_FEWEST}")
    scale = _scale(options, splits) if options.kind == REGRESSION else None
    _warn_of_leaks(splits)
    metrics, selection = _METRICS[BIO if scheme else options.kind]
    texts, names = len(columns.texts), tuple(splits)
    task = Task(options.name, options.kind, labels, texts, names, metrics, selection, scale=scale)
    return task, splits, columns


def _columns(options: argparse.Namespace) -> Columns:
    """The columns of all files, as they are in train."""
    files, header = options.files, options.has_header
    if not header and all(ending_of(path) not in DELIMITED for path in files.values()):
        raise ValueError("--no-header has no effect: none of the files is .tsv or .csv; drop it")
    names, num_texts = (options.text, options.text2, options.label), None
    if options.kind == TAGGING:
        num_texts = 1
    return choose_columns(files["train"], *names, header=header, num_texts=num_texts, labelled=True)


def _scheme(options: argparse.Namespace, train: _File) -> str | None:
    """How the tags name entities, if they do."""
    seen = {tag for row in train.rows for tag in row.label}
    if not are_entities(seen):
        logger.info("the tags name no entities (as BIO, BIOES, BILOU do): accuracy is measured")
        return None
    others = sum(_as_bio(row.label) != tuple(row.label) for row in train.rows)
    signs = {tag[0] for tag in seen}
    scheme = "BIOES" if signs & {*"ES"} else "BILOU" if signs & {*"LU"} else IOB1 if others else BIO
    logger.info("the tags are %s: F1 of entities is measured", scheme)
    if scheme == IOB1:
        logger.info("rows with an entity that begins with I-: %d", others)
    return scheme


def _is_labelled(options: argparse.Namespace, path: str, column: str, train: _File) -> bool:
    """Whether a test set has labels, and not, as -1 or ?, what stands for none and train lacks."""
    rows = read_rows(path, [column], options.has_header, lambda error: None, whole=True)
    cells = [row[column] for _, row in rows]
    seen = {x for cell in cells for x in (cell.split() if isinstance(cell, str) else cell)}
    known = {label for row in train.rows for label in as_tuple(row.label)}
    low = min(map(float, known)) if options.kind == REGRESSION else None

    def is_one(x: str) -> bool:
        is_score = low is not None and is_number(x) and float(x) >= low
        return x in known or is_score or not _UNLABELLED.fullmatch(x)

    if any(map(is_one, seen)) or (options.kind == MULTILABEL and cells and not seen):
        return True
    logger.info("%s has no labels in column %r: %s", path, column, quoted(seen) or "none")
    return False


def _warn_of_leaks(splits: dict[str, TaskRows]) -> None:
    train = set(splits["train"].texts)
    for split, rows in splits.items():
        number = sum(texts in train for texts in rows.texts)
        if split != "train" and number:
            rows.warnings["also in train"] = number
            logger.warning("%d of %d rows of %s are in train, too", number, len(rows.texts), split)


def _parse(
    options: argparse.Namespace, row: dict[str, Any], columns: Columns
) -> tuple[tuple[str, ...], Any]:
    """The texts of a row, or its words, and its label without space around it."""

    def refuse(problem: str, reason: str):
        raise RowError(problem, reason)

    def whole(values: Iterable[str]) -> tuple[str, ...]:
        stripped = tuple(printable(value).strip() for value in values)
        for value in filter(_NOTHING.fullmatch, stripped):
            refuse(f"has an empty label, {value!r}", "empty label")
        return stripped

    values = [row[name] for name in columns.texts]
    label: Any = None if columns.label is None else row[columns.label]
    if options.kind == TAGGING:
        words = tuple(words_of(values[0]))
        if label is not None:
            label = whole(words_of(label))
            if len(label) != len(words):
                refuse(f"has {len(label)} tags for {len(words)} words", "unequal words and tags")
            if not words:
                refuse("has no words", "no words")
        return words, label
    for text in values:
        if not isinstance(text, str):
            refuse(f"has a list for a text, which --kind {TAGGING} takes", "a list for a text")
        refuse_list(text)
    if isinstance(label, str):
        refuse_list(label, options.kind == MULTILABEL or "," in label)
    if options.kind == MULTILABEL and label is not None:
        if isinstance(label, str):
            label = label.split(options.label_separator) if label.strip() else []
        label = whole(label)
        twice = [one for one, number in Counter(label).items() if number > 1]
        if twice:
            refuse(f"has the label {twice[0]!r} twice; give names, not 0 and 1", "a label twice")
    elif label is not None:
        if not isinstance(label, str):
            refuse(f"has a list of labels, which --kind {MULTILABEL} takes", "a list of labels")
        (label,) = whole([label])
        if options.kind == REGRESSION and not is_number(label):
            refuse(f"has the score {label!r}, not a number", "not a number")
    return tuple(values), label


def _problem(
    row: _Row, labels: Sequence[str] = (), scale: tuple[float, float] | None = None
) -> tuple[str, str] | None:
    """What is wrong with the label of a row, and the reason to count."""
    for label in as_tuple(row.label or ()) if labels else ():
        if label not in labels:
            return f"has the label {label!r}, not one of {quoted(labels)}", "unknown label"
    if scale and not scale[0] <= float(row.label) <= scale[1]:
        problem = f"has the score {row.label!r}, outside --scale {scale[0]:g},{scale[1]:g}"
        return problem, "score outside the scale"
    return None


def _as_bio(tags: Sequence[str]) -> tuple[str, ...]:
    pairs = zip(("O", *tags), tags)
    return tuple(
        f"B{tag[1:]}" if tag[0] == "I" and (before == "O" or before[2:] != tag[2:]) else tag
        for before, tag in pairs
    )


def _labels(options: argparse.Namespace, train: _File, columns: Columns) -> tuple[str, ...]:
    """The labels in the order of the classes; all occur in train."""
    seen = {label for row in train.rows for label in as_tuple(row.label)}
    for label in options.labels:
        if label not in seen:
            raise ValueError(f"--labels has {label!r}, which does not occur in {train.path}")
    fewest = 1 if options.kind == MULTILABEL else 2
    if len(seen) < fewest:
        raise ValueError(
            f"{train.path} has {len(seen)} different labels ({quoted(seen) or 'none'}); --kind "
            f"{options.kind} needs {fewest} or more"
        )
    for label in seen:
        if f"{label}.0" in seen:
            raise ValueError(f"{train.path} has the labels {label!r} and '{label}.0'; write one")
    if options.kind == MULTILABEL and max(len(row.label) for row in train.rows) == 1:
        if any({*";|/"} & {*label} for label in seen):
            text = "no row of %s has two labels; is %r between them (--label-separator)?"
            logger.warning(text, train.path, options.label_separator)
    many = max(_MANY_LABELS, len(train.rows) // 2)
    if options.kind == CLASSIFICATION and not options.labels and len(seen) > many:
        raise ValueError(
            f"{train.path} has {len(seen)} different labels in {len(train.rows)} rows; is column "
            f"{columns.label!r} the label (--label)? --kind {REGRESSION} is for numbers"
        )
    numeric = all(map(is_number, seen))
    labels = sorted(seen, key=lambda label: (float(label) if numeric else 0, label))
    logger.info("labels in the order of the classes: %s", quoted(options.labels or labels))
    return options.labels or tuple(labels)


def _scale(options: argparse.Namespace, splits: dict[str, TaskRows]) -> tuple[float, float]:
    """That of train if none is given; scores outside are counted."""
    scores = list(map(float, splits["train"].labels))
    low, high = options.scale or (min(scores), max(scores))
    if low == high:
        raise ValueError(f"all scores of train are {low:g}; there is nothing to learn")
    if not options.scale:
        logger.info("the scale is %g to %g, as in train (--scale)", low, high)
    for rows in splits.values():
        outside = sum(not low <= float(label) <= high for label in rows.labels)
        if outside:
            rows.warnings[f"score outside {low:g} to {high:g}"] = outside
    return low, high


def _hold_out(options: argparse.Namespace, train: _File) -> dict[str, TaskRows]:
    """Train without a share of its rows, and valid with these."""
    labels = [() if options.kind == REGRESSION else as_tuple(row.label) for row in train.rows]
    stratify = options.kind in (CLASSIFICATION, MULTILABEL)
    strata = [tuple(sorted(label)) if stratify else () for label in labels]
    drawn = draw_share(strata, labels, options.valid_share, options.seed)
    if len(drawn) < _FEWEST:
        raise ValueError(
            f"--valid-share {options.valid_share:g} of {len(labels)} rows holds out {len(drawn)}; "
            f"validation needs {_FEWEST} or more; raise it, or give --valid"
        )
    logger.info("%d of %d rows of train are held out as valid", len(drawn), len(labels))
    kept = [place for place in range(len(labels)) if place not in drawn]
    return {
        "train": train.task_rows(kept, options.kind),
        "valid": train.task_rows(sorted(drawn), options.kind),
    }


def draw_share(
    strata: Sequence[tuple], labels: Sequence[tuple[str, ...]], share: float, seed: int
) -> set[int]:
    """Draw a share of the rows, as evenly as possible from each stratum.

    A row stays if no other row that stays has one of its labels. The draw depends on nothing else.
    """
    draw = random.Random(seed)
    members: dict[tuple, list[int]] = defaultdict(list)
    for row, stratum in enumerate(strata):
        members[stratum].append(row)
    quotas = {stratum: share * len(rows) for stratum, rows in members.items()}
    sizes = {stratum: int(quota) for stratum, quota in quotas.items()}
    # ties are decided by the draw, since there may be more strata of one row than rows to draw
    rest = sorted(quotas, key=lambda s: (sizes[s] - quotas[s], draw.random()))
    for stratum in rest[: max(0, round(share * len(strata)) - sum(sizes.values()))]:
        sizes[stratum] += 1
    drawn = {row for s, rows in members.items() for row in draw.sample(rows, sizes[s])}
    left = Counter(label for one in labels for label in one)
    for row in drawn:
        left.subtract(labels[row])
    for row in sorted(drawn):
        if any(not left[label] for label in labels[row]):
            drawn.remove(row)
            left.update(labels[row])
    return drawn
