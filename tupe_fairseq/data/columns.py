"""Which columns of a file have the texts, the candidates of multiple choice, and the label."""

import logging
import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tupe_fairseq.data.rows import (
    STANDARD_INPUT,
    Row,
    RowError,
    ending_of,
    first_rows,
    quoted,
    shown,
)

logger = logging.getLogger(__name__)

# lower-case column names, in order of preference
_TEXTS = (
    "sentence1+sentence2 premise+hypothesis question1+question2 question+sentence "
    "question+passage question+context question+answer query+document query+passage "
    "text1+text2 text_a+text_b text sentence tokens words sentence1 premise question content "
    "review comment document query"
).split()
_LABELS = (
    "label labels gold_label target targets tags ner_tags pos_tags tag class category score rating"
).split()
_IDS = ("id", "idx", "index", "guid", "uid", "")
# the same for multiple choice, where two columns together are the question
_QUESTIONS = (
    "article+question context+question sent1+sent2 premise+question ctx question premise goal "
    "sentence query context prompt stem text"
).split()
_CANDIDATES = "endings choices options candidates answers".split()
_NUMBERED = re.compile(r"(ending|choice|option|sol|answer|candidate)_?(\d|[a-h])")
_ANSWERS = "label answer answerkey answer_key correct gold target".split()


class Columns(NamedTuple):
    """Column names. ``label`` is None if there is no label; ``candidates`` is one column of lists,
    or one column for each candidate."""

    texts: tuple[str, ...]
    label: str | None = None
    candidates: tuple[str, ...] = ()

    @property
    def needed(self) -> list[str]:
        """The columns whose values are read as text, so not a column of lists of candidates."""
        each = self.candidates if len(self.candidates) > 1 else ()
        return [*self.texts, *each, *filter(None, [self.label])]

    def cells(self, row: Row, texts: Row, number: int = 0) -> tuple[list[Any], Any]:
        """The texts of a row, and its label (None without a label column).

        For multiple choice the texts are the question and all candidates, ``number`` of them if
        that is known. The label is the right candidate's name, or its index in the row's own names.
        """
        if not self.candidates:
            return [texts[name] for name in self.texts], texts.get(self.label)
        for name, value in texts.items():
            if not isinstance(value, str):
                raise RowError(f"has a list in column {name!r}, not a text", "a list for a text")
        question = " ".join(texts[name].strip() for name in self.texts).strip()
        listed = row.get(self.candidates[0])
        # of datasets such as ARC: {"text": [...], "label": ["A", ...]}
        names = listed.get("label") or () if isinstance(listed, dict) else ()
        found = listed.get("text") if isinstance(listed, dict) else listed
        if len(self.candidates) > 1:
            found = [texts[name] for name in self.candidates]
        if not isinstance(found, list) or not all(isinstance(x, str) for x in found):
            problem = f"has {shown(found)} in column {self.candidates[0]!r}, not a list of texts"
            raise RowError(problem, "no candidates")
        if not all(map(str.strip, [question, *found])):
            what = "candidate" if question else "question"
            raise RowError(f"has an empty {what}", f"empty {what}")
        if len(found) < 2 or number not in (0, len(found)):
            expected = f"{number} like most rows of train" if number else "2 or more"
            problem = f"has {len(found)} candidates, not {expected}"
            raise RowError(problem, "another number of candidates")
        label = None if self.label is None else texts[self.label].strip()
        return [question, *found], str(names.index(label)) if label in names else label


def find_column(path: str, names: list[str], name: str, flag: str) -> str:
    """The column that a flag names; refused if the file does not have it."""
    if name not in names:
        raise ValueError(f"{path} has no column {name!r} ({flag}); the columns are {quoted(names)}")
    return name


def choose_columns(
    path: str,
    text: str | None = None,
    text2: str | None = None,
    label: str | None = None,
    candidates: Sequence[str] | None = None,
    *,
    num_texts: int | None = None,
    labelled: bool = False,
) -> Columns:
    """The columns that the flags name; the others are guessed, and the guess is logged.

    Args:
        candidates: None if it is not multiple choice.
        num_texts: how many texts a row should have, 1 or 2; by default the columns decide.
        labelled: whether a label is needed.
    """
    if path == STANDARD_INPUT:
        return Columns(("text",))
    rows = first_rows(path)
    names = list(dict.fromkeys(name for row in rows for name in row))

    def named(flag: str, *columns: str | None) -> tuple[str, ...]:
        return tuple(find_column(path, names, x, f"--{flag}") for x in columns if x)

    chosen = {
        "text": named("text", text, text2),
        "candidates": named("candidates", *(candidates or ())),
        "label": named("label", label),
    }
    is_choice = candidates is not None
    needed = ["text", *["candidates"] * is_choice, *["label"] * labelled]
    if not all(chosen[role] for role in needed):
        taken = {x for columns in chosen.values() for x in columns}
        lower = {x.strip().lower(): x for x in reversed(names) if x not in taken}
        if ending_of(path) == ".conll":
            found = of_conll(rows)
        else:
            found = _of_choice(lower, names) if is_choice else _guess(lower)
        found["text"] = found["text"][:num_texts]
        guessed = {role: found[role] for role in needed if found[role] and not chosen[role]}
        chosen |= guessed
        for role in needed:
            if not chosen[role]:
                raise ValueError(
                    f"{path}: no column name suggests which one has the {role}; give --{role}; "
                    f"the columns are {quoted(names)}"
                )
        listed = dict(zip(("text", "text2"), guessed.get("text", ())))
        listed |= {role: ",".join(guessed[role]) for role in needed[1:] if role in guessed}
        flags = ", ".join(f"--{flag} {name!r}" for flag, name in listed.items())
        if ending_of(path) != ".txt":  # a .txt has only one column
            logger.info("%s: guessed %s", path, flags)
    of_label = chosen["label"][0] if labelled else None
    columns = Columns(chosen["text"], of_label, chosen["candidates"])
    every = [*columns.texts, *columns.candidates, *filter(None, [columns.label])]
    if len({*every}) < len(every):
        raise ValueError(f"{path}: a column is used twice: {quoted(every)}")
    if num_texts not in (None, len(columns.texts)):
        flag = "--text alone" if num_texts == 1 else "--text and --text2"
        raise ValueError(
            f"{path}: the task has {num_texts} texts, not {quoted(columns.texts)}; give {flag}"
        )
    return columns


def of_conll(rows: list[Row]) -> dict[str, tuple[str, ...]]:
    """The words are the first column that is not a word number or a document name, the tags are the
    last one. In CoNLL-U, which has ten columns, the tags are the fourth."""

    def counts(words: list[str]) -> bool:
        return words == [str(n) for n, _ in enumerate(words, words[0] == "1")]

    names = list(rows[0])
    others = (x for x in names if any(len({*r[x]}) > 1 and not counts(r[x]) for r in rows))
    text = next(others, names[0])
    label = names[3] if len(names) == 10 and all(counts(row["1"]) for row in rows) else names[-1]
    return {"text": (text,), "label": (label,) if label != text else ()}


def _guess(lower: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Guess the columns by their lower-case names; a single remaining column is the text."""
    label = tuple(lower[name] for name in _LABELS if name in lower)[:1]
    others = tuple(x for name, x in lower.items() if x not in label and name not in _IDS)
    text = _first(_TEXTS, lower) or (others if len(others) == 1 else ())
    return {"text": text, "label": label}


def _of_choice(lower: dict[str, str], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    candidates = _first(_CANDIDATES, lower)
    candidates = candidates or tuple(x for x in names if _NUMBERED.fullmatch(x.lower()))
    answers = [x for x in _ANSWERS if lower.get(x) not in candidates]
    return {
        "text": _first(_QUESTIONS, lower),
        "candidates": candidates,
        "label": _first(answers, lower),
    }


def _first(names: Iterable[str], lower: dict[str, str]) -> tuple[str, ...]:
    """The first of the names, or of the groups joined by +, whose columns all exist."""
    parts = (name.split("+") for name in names)
    found = next((part for part in parts if all(x in lower for x in part)), [])
    return tuple(lower[x] for x in found)


def names_of(number: int, labels: Counter[str], path: str) -> tuple[str, ...]:
    """The candidates' names, in the style of most labels: 0, 1, ..., or 1, 2, ..., or A, B, ..."""
    counted = [tuple(map(str, range(first, first + number))) for first in (0, 1)]
    letters = [tuple(x[:number]) for x in (string.ascii_uppercase, string.ascii_lowercase)]
    schemes = [*counted, *letters]
    fits = [sum(labels[name] for name in names) for names in schemes]
    if fits.count(max(fits)) > 1:
        raise ValueError(
            f"{path} has the labels {quoted(sorted(labels))} for {number} candidates: neither "
            "letters, nor numbers that clearly begin at 0 or at 1; write A, B, ..."
        )
    names = schemes[fits.index(max(fits))]
    logger.info("candidates are called %s", quoted(names))
    return names
