"""Your own labelled files as a task: texts, labels, and rows held out for valid and test."""

import argparse
import logging
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tupe_fairseq.data.choices import Choices, choose_choices, names_of
from tupe_fairseq.data.columns import Columns, choose_columns
from tupe_fairseq.data.metrics import are_entities
from tupe_fairseq.data.questions import read_rows_of_questions
from tupe_fairseq.data.rows import (
    DELIMITED,
    BadRows,
    RowError,
    ending_of,
    quoted,
    read_rows,
    refuse_list,
    words_of,
)
from tupe_fairseq.data.task import (
    CHOICE,
    CLASSIFICATION,
    MULTILABEL,
    QA,
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
    CHOICE: (("accuracy",), "accuracy"),
    QA: (("exact_match", "answer_f1"), "answer_f1"),
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


def read_task(
    options: argparse.Namespace, normalize: Callable[[str], str]
) -> tuple[Task, dict[str, dict[str, TaskRows]], dict[str, Any]]:
    """The task, the rows of its splits by folder, and for report.json the columns of train.

    Args:
        options: the flags of tupe-prepare-task, ``files`` by split, and ``has_header``.
        normalize: texts are the same if this makes them the same.
    """
    if options.kind == QA:
        return _read_question_task(options, normalize)
    if options.kind == CHOICE:
        return _read_choice_task(options, normalize)
    files, header = options.files, options.has_header
    if not header and all(ending_of(path) not in DELIMITED for path in files.values()):
        raise ValueError("--no-header has no effect: none of the files is .tsv or .csv; drop it")
    names = (options.text, options.text2, options.label)
    num_texts = 1 if options.kind == TAGGING else None
    columns = choose_columns(
        files["train"], *names, header=header, num_texts=num_texts, labelled=True
    )
    train = _read(options, files["train"], columns, options.labels, options.scale)
    scheme = _scheme(train) if options.kind == TAGGING else None
    converts = scheme == IOB1 and not options.labels
    if converts:
        train.labels = list(map(_as_bio, train.labels))
    labels = () if options.kind == REGRESSION else _labels(options, train, columns)
    parts = _parts(options, train, normalize)
    splits = next(iter(parts.values()))
    for split in filter(files.__contains__, ("valid", "test")):
        of_split = columns
        if split == "test" and not _is_labelled(options, files[split], columns.label, train):
            of_split = columns._replace(label=None)
        splits[split] = _read(options, files[split], of_split, labels, converts=converts)
    _check_sizes(parts)
    scale = _scale(options, train, splits) if options.kind == REGRESSION else None
    _warn_of_leaks({split: splits[split] for split in ("train", *files)}, normalize)
    metrics, selection = _METRICS[BIO if scheme else options.kind]
    texts = len(columns.texts)
    names = tuple(split for split in ("train", "valid", "test") if split in splits)
    task = Task(options.name, options.kind, labels, texts, names, metrics, selection, scale=scale)
    return task, parts, {"columns": columns._asdict()}


def _read_question_task(options: argparse.Namespace, normalize: Callable[[str], str]):
    """The same for questions; a text is on one side with all of its questions."""
    files, skips = options.files, options.skip_bad_rows
    train = read_rows_of_questions(files["train"], skips, labelled=True)
    if not any(train.labels):
        raise ValueError(f"no question of {files['train']} has an answer")
    parts = _parts(options, train, normalize)
    splits = next(iter(parts.values()))
    for split in filter(files.__contains__, ("valid", "test")):
        splits[split] = read_rows_of_questions(files[split], skips, labelled=split == "valid")
    _check_sizes(parts)
    _warn_of_leaks({split: splits[split] for split in ("train", *files)}, normalize)
    names = tuple(split for split in ("train", "valid", "test") if split in splits)
    more = {"stride": options.stride, "may_lack": not all(train.labels)}
    return Task(options.name, QA, (), 2, names, *_METRICS[QA], **more), parts, {}


def _read_choice_task(options: argparse.Namespace, normalize: Callable[[str], str]):
    """The same for questions with candidates; all rows have as many as the first one."""
    files, header = options.files, options.has_header
    given = options.text, options.text2, options.candidates or (), options.label
    columns = choose_choices(files["train"], header, *given, labelled=True)
    logger.info("columns: %s", columns)
    train = _read_choices(options, files["train"], columns, options.labels)
    number = len(train.texts[0]) - 1
    if len(options.labels) not in (0, number):
        raise ValueError(f"--labels names {len(options.labels)} candidates, and there are {number}")
    labels = options.labels or names_of(number, set(train.labels), files["train"])
    parts = _parts(options, train, normalize)
    splits = next(iter(parts.values()))
    for split in filter(files.__contains__, ("valid", "test")):
        of_split = columns
        if split == "test" and not _has_choices(options, files[split], columns, labels):
            of_split = columns._replace(label=None)
        splits[split] = _read_choices(options, files[split], of_split, labels, number)
    _check_sizes(parts)
    _warn_of_leaks({split: splits[split] for split in ("train", *files)}, normalize)
    names = tuple(split for split in ("train", "valid", "test") if split in splits)
    task = Task(options.name, CHOICE, labels, number + 1, names, *_METRICS[CHOICE])
    return task, parts, {"columns": {**columns._asdict(), "text": None}}


def _read_choices(options, path: str, columns: Choices, labels, number: int = 0) -> TaskRows:
    bad = BadRows()
    rows = TaskRows(dropped=bad)

    def on_bad(error: RowError) -> None:
        if not options.skip_bad_rows:
            raise ValueError(f"{error}; --skip-bad-rows leaves such rows out")
        bad(error)

    def use(index: int, row: dict[str, Any], texts: object) -> None:
        found = columns.read(row)
        wanted = number or len(rows.texts[0] if rows.texts else found) - 1
        if len(found) - 1 != wanted:
            problem = f"has {len(found) - 1} candidates, and others {wanted}"
            raise RowError(problem, "another number of candidates")
        label = None if columns.label is None else columns.label_of(row)
        if label is not None:
            _refuse_unknown(label, labels)
        rows.add(found, label, str(index))

    for _ in read_rows(path, [], options.has_header, on_bad, use, whole=True):
        pass
    if not rows.texts:
        raise ValueError(f"{path}: no row can be used; left out: {bad}")
    return rows


def _has_choices(options, path: str, columns: Choices, labels: Sequence[str]) -> bool:
    """Whether any row of a test set says which candidate is right."""

    def label(index: int, row: dict[str, Any], texts: object) -> str:
        return columns.label_of(row)

    rows = read_rows(path, [], options.has_header, lambda error: None, label, whole=True)
    return any(found in labels for _, found in rows)


def _check_sizes(parts: dict[str, dict[str, TaskRows]]) -> None:
    for of_part in parts.values():
        for split, rows in of_part.items():
            if split != "test" and len(rows.texts) < _FEWEST:
                raise ValueError(f"{split} has {len(rows.texts)} rows; fine-tuning needs {_FEWEST}")


def _read(
    options: argparse.Namespace,
    path: str,
    columns: Columns,
    labels: Sequence[str],
    scale: tuple[float, float] | None = None,
    converts: bool = False,
) -> TaskRows:
    """The rows of a file that can be used; the others are counted, or refused.

    Args:
        labels, scale: what a label may be, if that is known.
        converts: from IOB1, where B-x begins an entity only behind another x, to BIO.
    """
    bad = BadRows()
    rows = TaskRows(dropped=bad)

    def on_bad(error: RowError) -> None:
        if not options.skip_bad_rows:
            raise ValueError(f"{error}; --skip-bad-rows leaves such rows out")
        bad(error)

    def use(index: int, row: dict[str, Any], texts: dict[str, Any]) -> tuple:
        words = _texts([texts[name] for name in columns.texts], options.kind)
        if columns.label is None:
            return str(index), words, None
        label = _label(options, texts[columns.label], words)
        label = _as_bio(label) if converts else label
        _refuse_unknown(label, labels)
        if scale and not scale[0] <= float(label) <= scale[1]:
            problem = f"has the score {label!r}, outside --scale {scale[0]:g},{scale[1]:g}"
            raise RowError(problem, "score outside the scale")
        return str(index), words, label

    names = [*columns.texts, *([columns.label] if columns.label else [])]
    for _, (index, texts, label) in read_rows(path, names, options.has_header, on_bad, use):
        rows.add(texts, label, index)
    if not rows.texts:
        raise ValueError(f"{path}: no row can be used; left out: {bad}")
    return rows


def read_label(
    task: Task, separator: str, value: str | list[str], words: Sequence[str]
) -> str | tuple[str, ...]:
    """The label of a row of a trained task, its labels or tags; RowError if it has none."""
    options = argparse.Namespace(kind=task.kind, labels=task.labels, label_separator=separator)
    label = _label(options, value, words)
    if task.kind == TAGGING and are_entities(task.labels):
        # trained with IOB1, which became BIO, or with BIO
        needed = {"B" + tag[1:] for tag in task.labels if tag[0] == "I"}
        is_bio = needed <= {*task.labels} and {tag[0] for tag in task.labels} <= {*"BIO"}
        label = _as_bio(label) if is_bio else label
    _refuse_unknown(label, task.labels)
    return label


def _refuse_unknown(label: str | tuple[str, ...], labels: Sequence[str]) -> None:
    for one in as_tuple(label) if labels else ():
        if one not in labels:
            problem = f"has the label {one!r}, not one of {quoted(labels)}"
            raise RowError(problem, "unknown label")


def _seen(rows: TaskRows) -> set[str]:
    """All labels or tags of rows."""
    return {one for label in rows.labels for one in as_tuple(label)}


def _scheme(train: TaskRows) -> str | None:
    """How the tags name entities, if they do."""
    if not are_entities(_seen(train)):
        logger.info("the tags name no entities (as BIO, BIOES, BILOU do): accuracy is measured")
        return None
    others = sum(tags != _as_bio(tags) for tags in train.labels)
    signs = {tag[0] for tag in _seen(train)}
    scheme = "BIOES" if signs & {*"ES"} else "BILOU" if signs & {*"LU"} else IOB1 if others else BIO
    logger.info("the tags are %s: F1 of entities is measured", scheme)
    if scheme == IOB1:
        logger.info("rows with an entity that begins with I-: %d", others)
    return scheme


def _is_labelled(options: argparse.Namespace, path: str, column: str, train: TaskRows) -> bool:
    """Whether a test set has labels, and not, as -1 or ?, what stands for none and train lacks."""
    rows = read_rows(path, [column], options.has_header, lambda error: None, whole=True)
    cells = [row[column] for _, row in rows]
    seen = {x for cell in cells for x in (cell.split() if isinstance(cell, str) else cell)}
    known = _seen(train)
    low = min(map(float, known)) if options.kind == REGRESSION else None

    def is_one(x: str) -> bool:
        is_score = low is not None and is_number(x) and float(x) >= low
        return x in known or is_score or not _UNLABELLED.fullmatch(x)

    if any(map(is_one, seen)) or (options.kind == MULTILABEL and cells and not seen):
        return True
    logger.info("%s has no labels in column %r: %s", path, column, quoted(seen) or "none")
    return False


def _warn_of_leaks(splits: dict[str, TaskRows], normalize: Callable[[str], str]) -> None:
    """Of given files; what is drawn from one file has no text on both sides."""
    train = set(_keys(splits.pop("train"), normalize)) if len(splits) > 1 else set()
    for split, rows in splits.items():
        number = sum(texts in train for texts in _keys(rows, normalize))
        if number:
            rows.warnings["also in train"] = number
            logger.warning("%d of %d rows of %s are in train, too", number, len(rows.texts), split)


def _texts(values: Sequence[str | list[str]], kind: str) -> tuple[str, ...]:
    """The text of a row, the two, or its words."""
    if kind == TAGGING:
        return tuple(words_of(values[0]))
    for text in values:
        if not isinstance(text, str):
            problem = f"has a list for a text, which --kind {TAGGING} takes"
            raise RowError(problem, "a list for a text")
        refuse_list(text)
    return tuple(map(str, values))


def _label(options: argparse.Namespace, value: str | list[str], words: Sequence[str]) -> Any:
    """The label of a row, or its labels or tags, without space around them."""
    kind, label = options.kind, value
    if kind == TAGGING:
        label = words_of(value)
    elif isinstance(value, str):
        refuse_list(value, kind == MULTILABEL or "," in value)
        label = [value]
        if kind == MULTILABEL:
            label = value.split(options.label_separator) if value.strip() else []
    elif kind != MULTILABEL:
        problem = f"has a list of labels, which --kind {MULTILABEL} takes"
        raise RowError(problem, "a list of labels")
    label = tuple(printable(one).strip() for one in label)
    for one in label:
        if _NOTHING.fullmatch(one) and one not in options.labels:
            advice = "; if it is a label, list all in --labels" if one else ""
            raise RowError(f"has an empty label, {one!r}{advice}", "empty label")
        if kind == MULTILABEL and label.count(one) > 1:
            problem = f"has the label {one!r} twice; give names, not 0 and 1"
            raise RowError(problem, "a label twice")
        if kind == REGRESSION and not is_number(one):
            raise RowError(f"has the score {one!r}, not a number", "not a number")
    if kind == TAGGING and not len(label) == len(words) > 0:
        problem = f"has {len(label)} tags for {len(words)} words"
        raise RowError(problem, "unequal words and tags" if label or words else "no words")
    return label if kind in (TAGGING, MULTILABEL) else label[0]


def _as_bio(tags: Sequence[str]) -> tuple[str, ...]:
    pairs = zip(("O", *tags), tags)
    return tuple(
        f"B{tag[1:]}" if tag[0] == "I" and (before == "O" or before[2:] != tag[2:]) else tag
        for before, tag in pairs
    )


def _labels(options: argparse.Namespace, train: TaskRows, columns: Columns) -> tuple[str, ...]:
    """The labels in the order of the classes; all occur in train."""
    seen, path = _seen(train), options.files["train"]
    for label in options.labels:
        if label not in seen:
            raise ValueError(f"--labels has {label!r}, which does not occur in {path}")
    fewest = 1 if options.kind == MULTILABEL else 2
    if len(seen) < fewest:
        raise ValueError(
            f"{path} has {len(seen)} different labels ({quoted(seen) or 'none'}); --kind "
            f"{options.kind} needs {fewest} or more"
        )
    for label in seen:
        if f"{label}.0" in seen:
            raise ValueError(f"{path} has the labels {label!r} and '{label}.0'; write one")
    if options.kind == MULTILABEL and max(map(len, train.labels)) == 1:
        if any({*";|/"} & {*label} for label in seen):
            text = "no row of %s has two labels; is %r between them (--label-separator)?"
            logger.warning(text, path, options.label_separator)
    if options.kind == CLASSIFICATION and not options.labels:
        if len(seen) > max(_MANY_LABELS, len(train.labels) // 2):
            raise ValueError(
                f"{path} has {len(seen)} different labels in {len(train.labels)} rows; is column "
                f"{columns.label!r} the label (--label)? --kind {REGRESSION} is for numbers"
            )
    numeric = all(map(is_number, seen))
    labels = sorted(seen, key=lambda label: (float(label) if numeric else 0, label))
    logger.info("labels in the order of the classes: %s", quoted(options.labels or labels))
    return options.labels or tuple(labels)


def _scale(
    options: argparse.Namespace, train: TaskRows, splits: dict[str, TaskRows]
) -> tuple[float, float]:
    """That of the file of train if none is given; scores outside are counted."""
    scores = list(map(float, train.labels))
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


def _parts(
    options: argparse.Namespace, train: TaskRows, normalize: Callable[[str], str]
) -> dict[str, dict[str, TaskRows]]:
    """The splits that are drawn from one file, by the folder of each fold."""
    texts: list[Any] = _keys(train, normalize)
    if options.kind == QA:
        texts = [context for _, context in train.texts]
    if not options.folds:
        splits, rest = {}, range(len(texts))
        for split in ("test", "valid"):
            share = getattr(options, f"{split}_share")
            if share and split not in options.files:
                before, (rest, drawn) = len(rest), _hold_out(options, train, texts, rest, split)
                logger.info("%d of %d rows of train are held out as %s", len(drawn), before, split)
                splits[split] = _take(train, drawn)
        kept = _take(train, rest)
        kept.dropped = train.dropped
        return {"": {"train": kept, **dict(reversed(splits.items()))}}
    number, path, different = options.folds, options.files["train"], set(texts)
    if len(different) < number:
        raise ValueError(
            f"{path} has {len(texts)} rows with {len(different)} different texts, too few for "
            f"--folds {number}"
        )
    if options.kind not in (REGRESSION, QA):
        pairs = {(x, one) for x, label in zip(texts, train.labels) for one in as_tuple(label)}
        counts = Counter(label for _, label in pairs)
        rare = [f"{label!r} ({n})" for label, n in sorted(counts.items()) if n < number]
        if rare:
            text = "labels with fewer texts than there are folds, so that some test none: %s"
            logger.warning(text, ", ".join(rare))
    fold_of = deal(texts, _strata(options, train), [1 / number] * number, options.seed)
    parts = {}
    for fold in range(number):
        tested = [row for row, own in enumerate(fold_of) if own == fold]
        others = [row for row, own in enumerate(fold_of) if own != fold]
        rows = [*_hold_out(options, train, texts, others, "valid"), tested]
        splits = dict(zip(("train", "valid", "test"), (_take(train, part) for part in rows)))
        splits["train"].dropped = train.dropped
        parts[f"fold{fold + 1}"] = splits
    return parts


def _keys(rows: TaskRows, normalize: Callable[[str], str]) -> list[tuple[str, ...]]:
    """The texts of each row as the model gets them."""
    return [tuple(map(normalize, texts)) for texts in rows.texts]


def _take(rows: TaskRows, places: Iterable[int]) -> TaskRows:
    part = TaskRows()
    for place in places:
        part.add(rows.texts[place], rows.labels[place], rows.index[place])
    return part


def _strata(options: argparse.Namespace, rows: TaskRows) -> list[Any]:
    """Labels; of scores the tenth of the rows, by size; tags and answers are all alike."""
    if options.kind in (TAGGING, QA):
        return [()] * len(rows.labels)
    if options.kind != REGRESSION:
        return [tuple(sorted(as_tuple(label))) for label in rows.labels]
    strata, number = [0] * len(rows.labels), len(rows.labels)
    for rank, row in enumerate(sorted(range(number), key=lambda row: float(rows.labels[row]))):
        strata[row] = 10 * rank // number
    return strata


def _hold_out(
    options: argparse.Namespace, train: TaskRows, texts: Sequence, rows: Sequence[int], split: str
) -> tuple[list[int], list[int]]:
    """Of some rows of train, those that are left and those that are held out."""
    part, share = _take(train, rows), getattr(options, f"{split}_share")
    labels = [() if options.kind in (REGRESSION, QA) else as_tuple(label) for label in part.labels]
    own = [texts[row] for row in rows]
    drawn = draw_share(own, _strata(options, part), labels, share, options.seed)
    if len(drawn) < _FEWEST:
        raise ValueError(
            f"--{split}-share {share:g} of {len(labels)} rows ({len(set(own))} different texts) "
            f"holds out {len(drawn)}; {split} needs {_FEWEST} or more; raise it, or give --{split}"
        )
    kept = [row for place, row in enumerate(rows) if place not in drawn]
    return kept, [rows[place] for place in sorted(drawn)]


def draw_share(
    texts: Sequence[Any],
    strata: Sequence[Any],
    labels: Sequence[tuple[str, ...]],
    share: float,
    seed: int,
) -> set[int]:
    """Draw a share of the rows; a row stays if no other one that stays has one of its labels."""
    parts = deal(texts, strata, [1 - share, share], seed)
    drawn = {row for row, part in enumerate(parts) if part}
    left = Counter(x for row, label in enumerate(labels) if row not in drawn for x in label)
    for row in sorted(drawn):
        if row in drawn and any(not left[label] for label in labels[row]):
            same = {other for other in drawn if texts[other] == texts[row]}
            drawn -= same
            left.update(x for other in same for x in labels[other])
    return drawn


def deal(texts: Sequence[Any], strata: Sequence[Any], shares: Sequence[float], seed: int):
    """The part of each row: each gets its share of all rows and, nearly, of each stratum.

    Rows with the same text get the same part, and no part stays empty while there are texts. The
    draw depends on nothing else.
    """
    draw, same = random.Random(seed), defaultdict(list)
    for row, text in enumerate(texts):
        same[text].append(row)
    parts, sizes, seen = [0] * len(texts), [0] * len(shares), 0
    groups = sorted(same.values(), key=lambda rows: (strata[rows[0]], draw.random()))
    for place, rows in enumerate(groups):
        seen += len(rows)
        last = sizes.count(0) >= len(groups) - place  # they go where there is nothing yet
        # the part that lacks most; rounded, so that the draw decides between equal ones
        lacks = [
            (last and not n, round(x * seen - n, 9), draw.random()) for x, n in zip(shares, sizes)
        ]
        part = lacks.index(max(lacks))
        sizes[part] += len(rows)
        for row in rows:
            parts[row] = part
    return parts
